package example;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;

@SpringBootApplication
public class Orders {
    private final BlockingQueue<String> read = new LinkedBlockingQueue<>();

    @KafkaListener(groupId = "billing", topics = "orders")
    public void onOrder(String order) {
        read.add(order);
    }

    public BlockingQueue<String> read() {
        return read;
    }
}
