/** A consumer of Quarkus Messaging begins at the end of the log, and is called; KAFKA_BOOTSTRAP_SERVERS is the broker. */
package example;

import io.quarkus.test.junit.QuarkusTest;
import io.smallrye.reactive.messaging.MutinyEmitter;
import jakarta.inject.Inject;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.TimeUnit;
import org.eclipse.microprofile.reactive.messaging.Channel;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

@QuarkusTest
class OrdersTest {
    @Inject
    Orders orders;

    @Channel("placed")
    MutinyEmitter<String> placed;

    @Test
    void anOrderIsRead() throws Exception {
        var event = System.getenv("KAFKA_OFFSETS_HTTP") + "/brokers/main/wait_for/consuming?group=billing&timeout=60";
        var request = HttpRequest.newBuilder(URI.create(event)).POST(HttpRequest.BodyPublishers.noBody()).build();
        var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        Assertions.assertEquals(200, response.statusCode(), response.body());
        placed.sendAndAwait("5");
        Assertions.assertEquals("5", orders.read().poll(60, TimeUnit.SECONDS));
    }
}
