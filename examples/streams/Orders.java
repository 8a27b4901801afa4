import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KTable;

/**
 * Joins each order with its customer. The key of an order is its id, and the customer is a field of it: a foreign key.
 * So Kafka Streams sends the foreign keys to the partition in which Java's producer puts the customer.
 */
public final class Orders {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Orders() {}

    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> orders = builder.table("orders");
        KTable<String, String> customers = builder.table("customers");
        orders.join(customers, order -> read(order).get("customer").asText(), Orders::billed)
            .toStream()
            .to("billed-orders");
        Settings.run(builder.build(), Settings.of(args));
    }

    private static String billed(String order, String customer) {
        ObjectNode body = (ObjectNode) read(order);
        body.set("country", read(customer).get("country"));
        return body.toString();
    }

    private static JsonNode read(String text) {
        try {
            return JSON.readTree(text);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("this is not JSON: " + text, error);
        }
    }
}
