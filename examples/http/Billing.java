/** A test in Java: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired. */
import java.net.URI;
import java.net.http.*;
import java.util.Map;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Billing {
    static String post(String url, String json) throws Exception {
        var body = HttpRequest.BodyPublishers.ofString(json);
        var request = HttpRequest.newBuilder(URI.create(url)).header("Content-Type", "application/json").POST(body).build();
        var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) throw new AssertionError(response.body());
        return response.body();
    }

    public static void main(String[] serve) throws Exception {
        var started = post(serve[0] + "/brokers", "{\"manual_clock\": true}").split("\"");  // {"broker": "1", …
        var broker = serve[0] + "/brokers/" + started[3];
        post(broker + "/create_topic", "{\"name\": \"orders\"}");
        post(broker + "/faults/error", "{\"api\": \"OffsetCommit\", \"error\": \"NOT_COORDINATOR\", \"n\": 2}");
        Map<String, Object> config = Map.of("bootstrap.servers", started[7], "group.id", "billing");
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.commitSync(Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(7)));
        }
        post(broker + "/faults/1/wait", "{\"hits\": 2, \"timeout\": 0}");
        post(broker + "/assert_committed", "{\"group\": \"billing\", \"expected\": {\"orders\": {\"0\": 7}}}");
        post(broker + "/clock/advance", "{\"days\": 8}");
        post(broker + "/assert_committed", "{\"group\": \"billing\", \"expected\": {\"orders\": {\"0\": null}}}");
    }
}
