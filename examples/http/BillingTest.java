/** A test in Java: a commit gets NOT_COORDINATOR twice, and is repeated; after a week it has expired. */
import java.util.Map;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class BillingTest {
    @RegisterExtension KafkaBroker kafka = new KafkaBroker("manual_clock=true&topics=orders=1");

    @Test void aCommitIsRepeatedAndExpires() throws Exception {
        kafka.post("faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
        Map<String, Object> config = Map.of("bootstrap.servers", kafka.address, "group.id", "billing");
        try (var consumer = new KafkaConsumer<byte[], byte[]>(config, (topic, data) -> data, (topic, data) -> data)) {
            consumer.commitSync(Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(7)));
        }
        kafka.post("faults/1/wait?hits=2&timeout=0");
        kafka.post("clock/advance?days=8");
        kafka.post("assert_committed?group=billing&expected=orders:0:null");
    }
}
