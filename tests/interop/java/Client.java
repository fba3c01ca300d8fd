import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/**
 * Java's kafka-clients for the interop tests.
 *
 * <pre>
 * Client member BOOTSTRAP GROUP TOPIC sync|async|auto [KEY=VALUE ...]
 *                                                       a group member that speaks as tests/interop/members.py does;
 *                                                       ~EXPRESSION in place of a topic is matched by the broker
 * Client shell BOOTSTRAP                                one command a line on standard input, one answer a line:
 *                                                       `ok WORDS`, or `error EXCEPTION message`
 * Client load BOOTSTRAP                                 does a little of everything, for an archive of loaded classes
 * </pre>
 */
public final class Client {
    /** Whether the last asynchronous commit was, as during a rebalance: it is sent again when there is nothing to read. */
    private static boolean isRefused;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration READ_DEADLINE = Duration.ofSeconds(60);
    private static final String[] SERIALIZATION = {
        "key.serializer", "value.serializer", "key.deserializer", "value.deserializer"
    };

    private final String bootstrap;
    private final List<KafkaProducer<String, String>> abandoned = new ArrayList<>();
    private final Admin admin;
    private KafkaConsumer<String, String> followed;

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(settings(bootstrap, Map.of()));
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "member": member(arguments); break;
            case "load": new Client(arguments[1]).load(); break;
            default: new Client(arguments[1]).shell();
        }
    }

    private static Properties settings(String bootstrap, Map<String, String> more) {
        Properties settings = new Properties();
        String file = System.getProperty("client.properties");
        if (file != null) {
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                settings.load(reader);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        settings.put("bootstrap.servers", bootstrap);
        settings.putAll(more);
        return settings;
    }

    private static Properties clientSettings(String bootstrap, Map<String, String> more) {
        Properties settings = settings(bootstrap, more);
        for (String name : SERIALIZATION) {
            String kind = name.endsWith("deserializer") ? "StringDeserializer" : "StringSerializer";
            settings.put(name, "org.apache.kafka.common.serialization." + kind);
        }
        return settings;
    }

    // ---- a group member

    private static void member(String[] arguments) {
        Thread stop = new Thread(Client::readToTheEnd);
        stop.setDaemon(true);
        stop.start();
        member(arguments, stop::isAlive);
    }

    private static void member(String[] arguments, BooleanSupplier stays) {
        String topic = arguments[3];
        String commit = arguments[4];
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(memberSettings(arguments))) {
            if (topic.startsWith("~")) {
                consumer.subscribe(new SubscriptionPattern(topic.substring(1)), new Listener(consumer));
            } else {
                consumer.subscribe(List.of(topic), new Listener(consumer));
            }
            while (stays.getAsBoolean()) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    if (isRefused) {
                        commit(consumer, commit);
                    }
                    continue;
                }
                StringBuilder line = new StringBuilder("read");
                records.forEach(record -> line.append(' ').append(record.value()));
                tell(line.toString());
                commit(consumer, commit);
            }
        }
    }

    private static Properties memberSettings(String[] arguments) {
        Map<String, String> given = new HashMap<>(Map.of(
            "group.id", arguments[2],
            "auto.offset.reset", "earliest",
            "enable.auto.commit", String.valueOf(arguments[4].equals("auto")),
            "auto.commit.interval.ms", "100",
            "metadata.max.age.ms", "1000",
            "fetch.max.wait.ms", "50"));
        for (int i = 5; i < arguments.length; i++) {
            given.put(arguments[i].split("=")[0], arguments[i].split("=")[1]);
        }
        if (!given.getOrDefault("group.protocol", "classic").equals("consumer")) {
            given.putIfAbsent("session.timeout.ms", "1500");
            given.putIfAbsent("heartbeat.interval.ms", "200");
        }
        return clientSettings(arguments[1], given);
    }

    private static void commit(KafkaConsumer<String, String> consumer, String how) {
        try {
            if (how.equals("sync")) {
                consumer.commitSync();
            } else if (how.equals("async")) {
                consumer.commitAsync((offsets, error) -> isRefused = error != null);
            }
        } catch (CommitFailedException | RebalanceInProgressException overtaken) {
            // A rebalance came first: the next poll leads to the new assignment.
        }
    }

    private record Listener(KafkaConsumer<String, String> consumer) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            Set<TopicPartition> kept = new HashSet<>(consumer.assignment());
            kept.removeAll(revoked);
            tellAssigned(kept);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            tellAssigned(consumer.assignment());
        }

        private static void tellAssigned(Collection<TopicPartition> partitions) {
            tell("assigned " + partitions.stream()
                .map(entry -> String.valueOf(entry.partition())).sorted().collect(Collectors.joining(" ")));
        }
    }

    private static void readToTheEnd() {
        try {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (IOException gone) {
            // The parent is gone, which means the same.
        }
    }

    private static void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void load() throws Exception {
        for (String line : List.of(
                "cluster", "create loaded 3", "produce loaded 0 10 none", "read loaded 0 1", "offsets loaded latest",
                "alter group loaded 0=1", "committed group loaded", "transact name loaded commit loaded group 2 value")) {
            String[] words = line.split(" ");
            run(words[0], words);
        }
        for (String protocol : List.of("classic", "consumer")) {
            int[] polls = {20};
            String[] joining = {"member", bootstrap, protocol, "loaded", "sync", "group.protocol=" + protocol};
            member(joining, () -> polls[0]-- > 0);
        }
        admin.close();
    }

    // ---- the shell

    private void shell() throws IOException {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            try {
                tell(("ok " + run(words[0], words)).trim());
            } catch (ExecutionException error) {
                tell("error " + error.getCause().getClass().getSimpleName() + " " + error.getCause().getMessage());
            } catch (Exception error) {
                tell("error " + error.getClass().getSimpleName() + " " + error.getMessage());
            }
        }
        admin.close();
    }

    private String run(String command, String[] words) throws Exception {
        switch (command) {
            case "create": return create(words[1], Integer.parseInt(words[2]), words);
            case "grow": return grow(words[1], Integer.parseInt(words[2]));
            case "topics": return String.join(" ", admin.listTopics().names().get());
            case "partitions": return partitions(words[1]);
            case "delete-topic": admin.deleteTopics(List.of(words[1])).all().get(); return "";
            case "config": return config(words[1], words[2]);
            case "set-config": return setConfig(words[1], words[2], words[3]);
            case "cluster": return String.valueOf(admin.describeCluster().nodes().get().size());
            case "produce": return produce(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), words[4]);
            case "produce-at": return produceAt(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]));
            case "read": return read(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]));
            case "follow": return follow(words[1], Long.parseLong(words[2]), words[3]);
            case "next": return next(Integer.parseInt(words[1]));
            case "transact": return transact(words);
            case "read-committed": return readCommitted(words[1], Integer.parseInt(words[2]));
            case "transaction": return String.valueOf(
                admin.describeTransactions(List.of(words[1])).description(words[1]).get().state());
            case "transactions": return admin.listTransactions().all().get().stream()
                .map(found -> found.transactionalId() + "=" + found.state()).collect(Collectors.joining(" "));
            case "abort-transaction": return abortTransaction(words[1], Short.parseShort(words[2]));
            case "time": return time(words[1], Long.parseLong(words[2]));
            case "offsets": return offsets(words[1], words[2]);
            case "delete-records": return deleteRecords(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
            case "alter": return alter(words[1], words[2], words);
            case "committed": return committed(words[1], words[2]);
            case "groups": return groups();
            case "type": return String.valueOf(
                admin.describeConsumerGroups(List.of(words[1])).all().get().get(words[1]).type());
            case "describe": return describe(words[1]);
            case "delete-offset": return deleteOffset(words[1], words[2], Integer.parseInt(words[3]));
            case "delete-group": admin.deleteConsumerGroups(List.of(words[1])).all().get(); return "";
            case "config-resources": return configResources();
            case "log-dirs": return logDirs(words[1]);
            case "elect": return elect(words[1]);
            case "reassignments": return String.valueOf(
                admin.listPartitionReassignments().reassignments().get().size());
            case "quorum": return String.valueOf(admin.describeMetadataQuorum().quorumInfo().get().leaderId());
            case "features": return String.valueOf(admin.describeFeatures().featureMetadata().get()
                .finalizedFeatures().get("transaction.version").maxVersionLevel());
            case "quotas": return String.valueOf(
                admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size());
            case "quota": return String.valueOf(admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(
                ClientQuotaFilterComponent.ofEntity("user", words[1])))).entities().get().values());
            case "set-quota": admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                new ClientQuotaEntity(Map.of("user", words[1])), List.of(new ClientQuotaAlteration.Op(
                    words[2], words.length > 3 ? Double.valueOf(words[3]) : null))))).all().get(); return "";
            case "throttled": return throttled(words[1], words[2], Integer.parseInt(words[3]));
            case "password": return String.valueOf(admin.describeUserScramCredentials(List.of(words[1]))
                .description(words[1]).get().credentialInfos().stream()
                .map(info -> info.mechanism() + "=" + info.iterations()).collect(Collectors.joining(" ")));
            case "set-password": admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(words[1],
                new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), words[2]))).all().get(); return "";
            case "remove-password": admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(words[1],
                ScramMechanism.SCRAM_SHA_256))).all().get(); return "";
            case "passwords": return String.valueOf(admin.describeUserScramCredentials().all().get().size());
            case "rules": return String.valueOf(admin.describeAcls(AclBindingFilter.ANY).values().get().size());
            case "remove-members": admin.removeMembersFromConsumerGroup(
                words[1], new RemoveMembersFromConsumerGroupOptions()).all().get(); return "";
            case "classic-group": return String.valueOf(
                admin.describeClassicGroups(List.of(words[1])).all().get().get(words[1]).state());
            case "fence": admin.fenceProducers(List.of(words[1])).all().get(); return "";
            default: throw new IllegalArgumentException(command);
        }
    }

    private String create(String topic, int partitions, String[] words) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            configs.put(words[i].split("=")[0], words[i].split("=")[1]);
        }
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        return "";
    }

    private String grow(String topic, int partitions) throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(partitions))).all().get();
        return "";
    }

    private String partitions(String topic) throws Exception {
        return String.valueOf(
            admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
    }

    private String config(String topic, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    private String setConfig(String topic, String name, String value) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        return "";
    }

    private String produce(String topic, int start, int end, String compression) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Map<String, String> more = Map.of("enable.idempotence", "true", "compression.type", compression);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(clientSettings(bootstrap, more))) {
            for (int value = start; value < end; value++) {
                ProducerRecord<String, String> record =
                    new ProducerRecord<>(topic, String.valueOf(value), String.valueOf(value));
                record.headers().add("name", "value".getBytes());
                sent.add(producer.send(record));
            }
            producer.flush();
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
        return String.valueOf(sent.size());
    }

    /** throttled CLIENT TOPIC BYTES: the longest pause that a producer is told, with a quota of 1000 bytes a second. */
    private String throttled(String clientId, String topic, int size) throws Exception {
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("client-id", clientId)),
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1000.0))))).all().get();
        Map<String, String> more = Map.of("client.id", clientId);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(clientSettings(bootstrap, more))) {
            producer.send(new ProducerRecord<>(topic, "x".repeat(size))).get();
            return producer.metrics().values().stream()
                .filter(metric -> metric.metricName().name().equals("produce-throttle-time-max"))
                .map(metric -> String.valueOf(metric.metricValue())).collect(Collectors.joining());
        }
    }

    /** transact ID TOPIC commit|abort|leave [SOURCE GROUP OFFSET] VALUE … : one transaction. */
    private String transact(String[] words) throws Exception {
        boolean hasOffsets = words.length > 7;
        Map<String, String> more = Map.of("transactional.id", words[1], "max.block.ms", "60000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(clientSettings(bootstrap, more));
        producer.initTransactions();
        producer.beginTransaction();
        for (int i = hasOffsets ? 7 : 4; i < words.length; i++) {
            producer.send(new ProducerRecord<>(words[2], words[i])).get();
        }
        if (hasOffsets) {
            Map<String, String> group = Map.of("group.id", words[5]);
            try (KafkaConsumer<String, String> nobody = new KafkaConsumer<>(clientSettings(bootstrap, group))) {
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[4], 0), new OffsetAndMetadata(Long.parseLong(words[6]))),
                    nobody.groupMetadata());
            }
        }
        switch (words[3]) {
            case "commit": producer.commitTransaction(); break;
            case "abort": producer.abortTransaction(); break;
            default: abandoned.add(producer); return "";
        }
        producer.close();
        return "";
    }

    private String readCommitted(String topic, int count) {
        List<String> values = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        long deadline = System.nanoTime() + READ_DEADLINE.toNanos();
        Map<String, String> more = Map.of("isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(clientSettings(bootstrap, more))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while ((values.size() < count || consumer.position(partition) < end) && System.nanoTime() < deadline) {
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return String.join(" ", values);
    }

    private String abortTransaction(String topic, short epoch) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        var states = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        var open = states.stream().filter(state -> state.currentTransactionStartOffset().isPresent()).findFirst().get();
        admin.abortTransaction(new AbortTransactionSpec(
            partition, open.producerId(), epoch, open.coordinatorEpoch().orElse(0))).all().get();
        return "";
    }

    private String produceAt(String topic, long start, int count) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(clientSettings(bootstrap, Map.of()))) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, 0, start + i * 1000L, null, String.valueOf(i)));
            }
            producer.flush();
        }
        return "";
    }

    private KafkaConsumer<String, String> reader() {
        return new KafkaConsumer<>(
            clientSettings(bootstrap, Map.of("auto.offset.reset", "earliest", "fetch.max.wait.ms", "50")));
    }

    private String read(String topic, long offset, int count) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = reader()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            return values(consumer, count);
        }
    }

    private static String values(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + READ_DEADLINE.toNanos();
        while (values.size() < count && System.nanoTime() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                values.add(record.value());
            }
        }
        return String.join(" ", values);
    }

    /** Begin to read a partition with a consumer that remains: `next` polls it. */
    private String follow(String topic, long offset, String reset) {
        if (followed != null) {
            followed.close();
        }
        followed = new KafkaConsumer<>(clientSettings(bootstrap, Map.of(
            "auto.offset.reset", reset, "enable.auto.commit", "false", "metadata.max.age.ms", "500")));
        TopicPartition partition = new TopicPartition(topic, 0);
        followed.assign(List.of(partition));
        followed.seek(partition, offset);
        return "";
    }

    private String next(int count) {
        return values(followed, count);
    }

    private String time(String topic, long timestamp) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = reader()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            return found == null ? "none" : found.offset() + " " + found.timestamp();
        }
    }

    private String offsets(String topic, String which) throws Exception {
        OffsetSpec spec = switch (which) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max-timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(Long.parseLong(which));
        };
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        int count = Integer.parseInt(partitions(topic));
        for (int partition = 0; partition < count; partition++) {
            asked.put(new TopicPartition(topic, partition), spec);
        }
        Map<Integer, Long> answer = new TreeMap<>();
        admin.listOffsets(asked).all().get().forEach((key, value) -> answer.put(key.partition(), value.offset()));
        return joined(answer);
    }

    private String deleteRecords(String topic, int partition, long offset) throws Exception {
        TopicPartition key = new TopicPartition(topic, partition);
        return String.valueOf(admin.deleteRecords(Map.of(key, RecordsToDelete.beforeOffset(offset)))
            .lowWatermarks().get(key).get().lowWatermark());
    }

    private String alter(String group, String topic, String[] words) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] pair = words[i].split("=");
            offsets.put(
                new TopicPartition(topic, Integer.parseInt(pair[0])),
                new OffsetAndMetadata(Long.parseLong(pair[1]), "metadata-" + pair[1]));
        }
        admin.alterConsumerGroupOffsets(group, offsets).all().get();
        return "";
    }

    private String committed(String group, String topic) throws Exception {
        Map<Integer, Long> answer = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((key, value) -> {
            if (key.topic().equals(topic)) {
                answer.put(key.partition(), value.offset());
            }
        });
        return joined(answer);
    }

    private String groups() throws Exception {
        Set<String> empty = new HashSet<>();
        admin.listGroups(ListGroupsOptions.forConsumerGroups().inGroupStates(Set.of(GroupState.EMPTY)))
            .all().get().forEach(group -> empty.add(group.groupId()));
        return String.join(" ", empty);
    }

    private String describe(String group) throws Exception {
        ConsumerGroupDescription answer = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        long owned = answer.members().stream().mapToLong(one -> one.assignment().topicPartitions().size()).sum();
        return answer.groupState() + " members=" + answer.members().size() + " partitions=" + owned
            + " assignor=" + answer.partitionAssignor();
    }

    private String configResources() throws Exception {
        return admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions())
            .all().get().stream().map(ConfigResource::name).collect(Collectors.joining(" "));
    }

    /** Whether the one log directory has bytes of the topic, and the lag of its only replica. */
    private String logDirs(String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        var folders = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        var sizes = folders.values().stream()
            .filter(folder -> folder.replicaInfos().containsKey(partition))
            .map(folder -> folder.replicaInfos().get(partition).size() > 0).toList();
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, 1);
        var place = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
        return sizes + " " + place.getCurrentReplicaOffsetLag();
    }

    private String elect(String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition)
            .map(error -> error.getClass().getSimpleName()).orElse("elected");
    }

    private String deleteOffset(String group, String topic, int partition) throws Exception {
        admin.deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(topic, partition))).all().get();
        return "";
    }

    private static String joined(Map<Integer, Long> offsets) {
        return offsets.entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue()).collect(Collectors.joining(" "));
    }
}
