/** A test in Java: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired. */
import java.net.URI;
import java.net.http.*;
import java.util.Map;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.*;

class BillingTest {
    static String post(String path) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:8080/brokers" + path));
        var response = HttpClient.newHttpClient().send(
            request.POST(HttpRequest.BodyPublishers.noBody()).build(), HttpResponse.BodyHandlers.ofString());
        Assertions.assertTrue(response.statusCode() < 300, response.body());
        return response.body();
    }

    @Test void aCommitIsRepeatedAndExpires() throws Exception {
        var address = post("?name=java&manual_clock=true&topics=orders=1&field=bootstrap_servers");
        post("/java/faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
        Map<String, Object> config = Map.of("bootstrap.servers", address, "group.id", "billing");
        try (var consumer = new KafkaConsumer<byte[], byte[]>(config, (topic, data) -> data, (topic, data) -> data)) {
            consumer.commitSync(Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(7)));
        }
        post("/java/faults/1/wait?hits=2&timeout=0");
        post("/java/clock/advance?days=8");
        post("/java/assert_committed?group=billing&expected=orders:0:null");
    }
}
