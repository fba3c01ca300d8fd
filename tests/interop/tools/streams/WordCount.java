import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/** Counts words, exactly once. Arguments: address, topic, number of words, directory of the state. */
public class WordCount {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count-" + arguments[1]);
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    properties.put("auto.offset.reset", "earliest");
    properties.put("default.key.serde", Serdes.StringSerde.class);
    properties.put("default.value.serde", Serdes.StringSerde.class);
    CountDownLatch done = new CountDownLatch(Integer.parseInt(arguments[2]));
    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream(arguments[1])
        .flatMapValues(line -> List.of(line.split(" ")))
        .groupBy((key, word) -> word)
        .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
        .toStream()
        .peek((word, count) -> done.countDown())
        .mapValues(String::valueOf)
        .to(arguments[1] + "-counts");
    try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
      streams.start();
      done.await();
    }
  }
}
