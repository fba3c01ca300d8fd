/** Consumers that begin at the end of the log, as by default, read what is produced once `consuming` has occurred. */
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.*;
import org.junit.jupiter.api.extension.RegisterExtension;

class LatestTest {
    @RegisterExtension KafkaBroker kafka = new KafkaBroker("topics=orders=3");
    ExecutorService threads = Executors.newFixedThreadPool(2);
    BlockingQueue<String> values = new LinkedBlockingQueue<>();

    @Test @Timeout(60) void twoConsumersReadAll() throws Exception {
        kafka.post("produce?topic=orders&records=old&records=old&records=old");
        for (int members = 1; members <= 2; members++) {
            threads.submit(() -> consume(Map.of("bootstrap.servers", kafka.address, "group.id", "billing",
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")));
            kafka.post("wait_for/consuming?group=billing&timeout=60&members=" + members);
        }
        kafka.post("produce?topic=orders&records=a&records=b&records=c");
        Assertions.assertEquals(Set.of("a", "b", "c"), Set.of(values.take(), values.take(), values.take()));
        threads.shutdownNow(); threads.awaitTermination(60, TimeUnit.SECONDS);
    }

    void consume(Map<String, Object> config) {
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            while (true) consumer.poll(java.time.Duration.ofMillis(100)).forEach(each -> values.add(each.value()));
        }
    }
}
