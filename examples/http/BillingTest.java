/** A test in Java: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired. */
import java.net.URI;
import java.net.http.*;
import java.util.Map;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.*;

class BillingTest {
    static String post(String path) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("KAFKA_OFFSETS_URL") + path));
        var response = HttpClient.newHttpClient().send(
            request.POST(HttpRequest.BodyPublishers.noBody()).build(), HttpResponse.BodyHandlers.ofString());
        Assertions.assertTrue(response.statusCode() < 300, response.body());
        return response.body();
    }

    @Test
    void aCommitIsRepeatedAndExpires() throws Exception {
        var address = post("/brokers?name=java&manual_clock=true&topics=orders=1&field=bootstrap_servers");
        post("/brokers/java/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
        Map<String, Object> config = Map.of("bootstrap.servers", address, "group.id", "billing");
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.commitSync(Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(7)));
        }
        post("/brokers/java/faults/1/wait?hits=2&timeout=0");
        post("/brokers/java/assert_committed?group=billing&expected=orders:0:7");
        post("/brokers/java/clock/advance?days=8");
        post("/brokers/java/assert_committed?group=billing&expected=orders:0:null");
    }
}
