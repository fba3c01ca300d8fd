/** A consumer of Quarkus Messaging is called: the broker is the one in KAFKA_BOOTSTRAP_SERVERS. */
package example;

import io.quarkus.test.junit.QuarkusTest;
import io.smallrye.reactive.messaging.MutinyEmitter;
import jakarta.inject.Inject;
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
        placed.sendAndAwait("5");
        Assertions.assertEquals("5", orders.read().poll(60, TimeUnit.SECONDS));
    }
}
