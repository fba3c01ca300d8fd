/** The listener of a Spring Boot application is called: the broker is the one in SPRING_KAFKA_BOOTSTRAP_SERVERS. */
package example;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.KafkaTemplate;

@SpringBootTest(properties = "spring.kafka.consumer.auto-offset-reset=earliest")
class OrdersTest {
    @Test
    void anOrderIsRead(@Autowired KafkaTemplate<String, String> template, @Autowired Orders orders) throws Exception {
        template.send("orders", "5").get();
        Assertions.assertEquals("5", orders.read().poll(60, TimeUnit.SECONDS));
    }
}
