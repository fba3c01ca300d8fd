package example;

import jakarta.enterprise.context.ApplicationScoped;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.eclipse.microprofile.reactive.messaging.Incoming;

@ApplicationScoped
public class Orders {
    private final BlockingQueue<String> read = new LinkedBlockingQueue<>();

    @Incoming("orders")
    void onOrder(String order) {
        read.add(order);
    }

    public BlockingQueue<String> read() {
        return read;
    }
}
