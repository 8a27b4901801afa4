import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.BiFunction;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Two running totals of orders: by customer and currency, and by region. The key of an order is the customer, so both
 * totals have another key. So each goes through a repartition topic to a state store with a changelog.
 */
public final class Totals {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Totals() {}

    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> orders = builder.stream("orders");
        total(orders, "accounts", (customer, order) -> customer + "/" + read(order).get("currency").asText());
        total(orders, "regions", (customer, order) -> read(order).get("region").asText());
        Settings.run(builder.build(), Settings.of(args));
    }

    /** For each order, writes to the topic `name` the order, and the number and the total of the orders with its key. */
    private static void total(KStream<String, String> orders, String name, BiFunction<String, String, String> by) {
        orders.selectKey(by::apply)
            .groupByKey(Grouped.as(name))
            .aggregate(
                () -> "",
                (key, order, before) -> after(read(order), before),
                Materialized.as(name))
            .toStream()
            .to(name);
    }

    private static String after(JsonNode order, String before) {
        JsonNode old = before.isEmpty() ? JSON.createObjectNode() : read(before);
        ObjectNode after = JSON.createObjectNode();
        after.put("order_id", order.get("order_id").asLong());
        after.put("amount", order.get("amount").asLong());
        after.put("orders", old.path("orders").asLong() + 1);
        after.put("total", old.path("total").asLong() + order.get("amount").asLong());
        return after.toString();
    }

    private static JsonNode read(String text) {
        try {
            return JSON.readTree(text);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("this is not JSON: " + text, error);
        }
    }
}
