import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/** Prints how Kafka reads each text of a file, as JSON: its options, or null if it is refused. */
public class JaasTexts {
    public static void main(String[] arguments) throws Exception {
        StringBuilder output = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String text = new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_16BE);
            output.append(read(text)).append('\n');
        }
        System.out.print(output);
    }

    static String read(String text) {
        Map<String, ?> options;
        try {
            var context = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)));
            options = context.configurationEntries().get(0).getOptions();
        } catch (IllegalArgumentException refused) {
            return "null";
        }
        if (options.containsKey(null)) {
            return "{\"no name\": true}";
        }
        StringBuilder json = new StringBuilder();
        options.forEach((name, value) -> json.append(json.length() == 0 ? "" : ", ")
            .append(quoted(name)).append(": ").append(quoted(value.toString())));
        return "{\"options\": {" + json + "}}";
    }

    static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        text.chars().forEach(unit -> json.append(String.format("\\u%04x", unit)));
        return json.append('"').toString();
    }
}
