/** The small test with Java's client: see clients.py. */
import java.io.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

class SmallTest {
    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ");
            long began = System.nanoTime();
            test(words[0], words[1], Integer.parseInt(words[2]), words[3]);
            System.out.println((System.nanoTime() - began) / 1e9);
        }
    }

    static void test(String address, String name, int partitions, String protocol) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", address);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(name, 0, null, "" + i));
            producer.flush();
        }
        settings = Map.of("bootstrap.servers", address, "group.id", name, "group.protocol", protocol,
            "auto.offset.reset", "earliest", "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(name));
            for (int read = 0; read < 10;) read += consumer.poll(Duration.ofSeconds(30)).count();
            consumer.commitSync();
        }
    }
}
