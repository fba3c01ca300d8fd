/** A broker for each test, with JUnit 5: @RegisterExtension KafkaBroker kafka = new KafkaBroker("topics=orders=1"); */
import java.net.*;
import java.net.http.*;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.extension.*;

class KafkaBroker implements BeforeEachCallback, AfterEachCallback {
    static final String SERVER = System.getenv().getOrDefault("KAFKA_OFFSETS_HTTP", "http://127.0.0.1:8080");
    String settings, name, address;

    KafkaBroker(String settings) { this.settings = settings; }

    public void beforeEach(ExtensionContext test) throws Exception {
        name = URLEncoder.encode(test.getUniqueId(), StandardCharsets.UTF_8);
        address = call("POST", "?field=bootstrap_servers&ttl_seconds=60&name=" + name + "&" + settings);
    }

    public void afterEach(ExtensionContext test) throws Exception { call("DELETE", "/" + name); }

    /** Do something with the broker: "faults/error?api=Fetch&error=...", "wait_for/caught_up?group=billing" ... */
    String post(String operation) throws Exception { return call("POST", "/" + name + "/" + operation); }

    static String call(String method, String path) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(SERVER + "/brokers" + path))
            .method(method, HttpRequest.BodyPublishers.noBody()).build();
        var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) throw new AssertionError(response.body());
        return response.body();
    }
}
