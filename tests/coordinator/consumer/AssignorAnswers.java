import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.timeline.*;

/** Says a line of what Kafka's assignors and maps do for each line of questions; see record_assignor_answers.py. */
public class AssignorAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "assign": out.append(assign(words)); break;
                case "order": out.append(order(words)); break;
                case "compute": out.append(compute(words)); break;
                default: throw new IllegalArgumentException(line);
            }
            out.append('\n');
        }
        System.out.write(out.toString().getBytes("UTF-8"));
        System.out.flush();
    }

    static Uuid id(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    static String[] split(String text, String by) {
        return text.isEmpty() ? new String[0] : text.split(by);
    }

    /** assign, name, HOMOGENEOUS or not, id=count ..., then four words for each member: id, instance, topics, target. */
    static String assign(String[] words) throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String each : split(words[3], " ")) counts.put(id(each.split("=")[0]), Integer.parseInt(each.split("=")[1]));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        for (int at = 4; at < words.length; at += 4) {
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String each : split(words[at + 2], " ")) topics.add(id(each));
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            for (String each : split(words[at + 3], " ")) {
                List<Integer> partitions = new ArrayList<>();
                for (String partition : each.split("=")[1].split(",")) partitions.add(Integer.parseInt(partition));
                target.put(id(each.split("=")[0]), new HashSet<>(partitions));
            }
            Optional<String> instance = words[at + 1].isEmpty() ? Optional.empty() : Optional.of(words[at + 1]);
            members.put(words[at],
                new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, topics, new Assignment(target)));
        }
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        members.forEach((name, member) -> member.partitions().forEach((topic, partitions) ->
            partitions.forEach(p -> owners.computeIfAbsent(topic, x -> new HashMap<>()).put(p, name))));
        GroupSpec spec = new GroupSpecImpl(members, SubscriptionType.valueOf(words[2]), owners);
        ConsumerGroupPartitionAssignor assignor = words[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment found = assignor.assign(spec, new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
        });
        List<String> said = new ArrayList<>();
        for (String member : new TreeSet<>(found.members().keySet())) {
            said.add(member);
            Map<String, String> shown = new TreeMap<>();
            found.members().get(member).partitions().forEach((topic, partitions) -> {
                if (!partitions.isEmpty()) shown.put(hex(topic),
                    new TreeSet<>(partitions).stream().map(Object::toString).collect(Collectors.joining(",")));
            });
            said.add(shown.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining(" ")));
        }
        return String.join("\t", said);
    }

    /** order, names: a HashSet to which they are added, one made of them, and the map of a group's members. */
    static String order(String[] words) {
        List<String> names = Arrays.asList(Arrays.copyOfRange(words, 1, words.length));
        Set<String> added = new HashSet<>();
        added.addAll(List.of());
        for (String name : names) added.add(name);
        TimelineHashMap<String, String> timeline = new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (String name : names) timeline.put(name, name);
        return String.join(" ", added) + "\t" + String.join(" ", new HashSet<>(names)) + "\t"
            + String.join(" ", timeline.keySet());
    }

    /** compute, expected size, names to put with + before them, names to compute with ? before them. */
    static String compute(String[] words) {
        Map<String, String> map = new HashMap<>(Integer.parseInt(words[1]));
        for (int at = 2; at < words.length; at++) {
            String name = words[at].substring(1);
            if (words[at].startsWith("+")) map.put(name, name); else map.computeIfAbsent(name, x -> x);
        }
        return String.join(" ", map.keySet());
    }
}
