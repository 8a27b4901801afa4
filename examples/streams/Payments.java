import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.streams.StreamsBuilder;

/** Checks each payment, and writes it with its fee and its status. It has no state. */
public final class Payments {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Payments() {}

    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("payments").mapValues(Payments::process).to("processed-payments");
        Settings.run(builder.build(), Settings.of(args));
    }

    private static String process(String payment) {
        try {
            ObjectNode body = (ObjectNode) JSON.readTree(payment);
            long amount = body.get("amount").asLong();
            boolean valid = amount > 0 && body.get("currency").asText().length() == 3;
            body.put("fee", valid ? 25 + amount / 100 : 0);
            body.put("status", valid ? "accepted" : "rejected");
            return JSON.writeValueAsString(body);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("this is not a payment: " + payment, error);
        }
    }
}
