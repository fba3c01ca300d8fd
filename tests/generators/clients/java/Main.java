/** Makes a broker and reads a record, by the client of openapi-generator for Java. */
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.*;
import org.openapitools.client.model.*;

class Main {
    public static void main(String[] arguments) throws Exception {
        var client = new ApiClient();
        client.updateBaseUri(arguments[0]);
        var name = "java/1";
        new BrokersApi(client).postBrokers(new PostBrokersRequest().name(name));
        var broker = new BrokerApi(client);
        var records = List.<Object>of(Map.of("value", "first", "timestamp", 1_700_000_000_000L));
        var ends = broker.postProduce(name, new PostProduceRequest().topic("orders").records(records));
        var record = broker.getConsumeAll(name, "orders", null).get(0);
        System.out.println(String.join(" ", record.getTopic(), "" + ends.get("orders").get("0"),
            "" + record.getTimestamp(), "" + record.getValue()));
        try {
            broker.getBroker("none");
        } catch (ApiException error) {
            System.out.println(client.getObjectMapper().readValue(error.getResponseBody(), Problem.class).getDetail());
        }
    }
}
