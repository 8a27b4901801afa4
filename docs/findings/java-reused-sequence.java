import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Counts how often records that Kafka's Java producer has committed are missing.
 *
 * <p>Each trial has its own producer. Its first transaction sends one record. The broker appends the record, but the
 * producer gets an error. The program aborts, and commits a record in the next transaction. This record is lost if
 * the producer gives it the sequence number of the first one.
 *
 * <pre>
 * java -cp 'LIBS/*' java-reused-sequence.java BOOTSTRAP MODE [TRIALS] [ERROR] [RECORDS]
 * </pre>
 *
 * <p>LIBS has the jars of Kafka. MODE says when the program calls {@code abortTransaction}:
 *
 * <ul>
 *   <li>{@code get}: as soon as {@code send(record).get()} has failed;
 *   <li>{@code flush}: the same, after {@code flush()};
 *   <li>{@code callback}: as soon as the callback of {@code send} has handed the error to the program's thread;
 *   <li>{@code slow-callback}: the same, and the callback returns 50 ms later;
 *   <li>{@code commit}: after {@code commitTransaction} has failed, which it calls right after {@code send}, as in the
 *       example in the documentation of {@code KafkaProducer};
 *   <li>{@code wait}: 100 ms after {@code send(record).get()} has failed. This is the control.
 * </ul>
 *
 * <p>ERROR is the error that the producer gets. RECORDS is the number of records in the second transaction.
 */
class ReusedSequence {
    /** If true, the next success of a Produce becomes an error. */
    static final AtomicBoolean armed = new AtomicBoolean();
    static final AtomicInteger initProducerIds = new AtomicInteger();
    static final TopicPartition PARTITION = new TopicPartition("reused-sequence-" + System.currentTimeMillis(), 0);

    static String bootstrap;
    static String mode;
    static Errors error;
    static int records;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        mode = arguments[1];
        int trials = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 20;
        error = Errors.valueOf(arguments.length > 3 ? arguments[3] : "UNKNOWN_SERVER_ERROR");
        records = arguments.length > 4 ? Integer.parseInt(arguments[4]) : 1;
        List<String> ends = new ArrayList<>();
        for (int trial = 0; trial < trials; trial++) ends.add(attempt(trial));
        Map<String, Integer> found = readCommitted();
        Map<String, Integer> results = new TreeMap<>();
        for (int trial = 0; trial < trials; trial++) {
            boolean complete = found.getOrDefault("committed " + trial, 0) == records;
            String end = ends.get(trial);
            String result = end.endsWith("committed") ? end + (complete ? ": right" : ": LOST") : end;
            results.merge(result, 1, Integer::sum);
        }
        System.out.println(mode + ", " + error + ", " + trials + " trials");
        results.forEach((result, count) -> System.out.println("  " + count + ": " + result));
    }

    /** Carry out a trial. Return what its producer did, which ends in "committed" if the commit succeeded. */
    static String attempt(int trial) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", PARTITION.topic() + "-" + trial,
            "linger.ms", records == 1 ? 0 : 50);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            watch(producer);
            producer.initTransactions();
            int before = initProducerIds.get();

            producer.beginTransaction();
            armed.set(true);
            if (!failed(producer, record("aborted " + trial))) throw new IllegalStateException("there was no error");
            producer.abortTransaction();
            String bump = initProducerIds.get() == before ? "no InitProducerId" : "InitProducerId";

            try {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int i = 0; i < records; i++) sent.add(producer.send(record("committed " + trial)));
                for (Future<RecordMetadata> future : sent) future.get();
                producer.commitTransaction();
            } catch (ExecutionException refused) {
                return bump + " after the abort, then " + refused.getCause().getClass().getSimpleName();
            }
            return bump + " after the abort, then committed";
        }
    }

    static ProducerRecord<String, String> record(String value) {
        return new ProducerRecord<>(PARTITION.topic(), PARTITION.partition(), "key", value);
    }

    /** Send a record. Return whether the program learned that it failed. */
    static boolean failed(KafkaProducer<String, String> producer, ProducerRecord<String, String> record) throws Exception {
        if (mode.endsWith("callback")) {
            CompletableFuture<Exception> result = new CompletableFuture<>();
            producer.send(record, (metadata, exception) -> {
                result.complete(exception);
                if (mode.equals("slow-callback")) sleep(50);
            });
            return result.get() != null;
        }
        Future<RecordMetadata> future = producer.send(record);
        if (mode.equals("commit")) {
            try {
                producer.commitTransaction();
                return false;
            } catch (KafkaException expected) {
                return true;
            }
        }
        if (mode.equals("flush")) producer.flush();
        try {
            future.get();
            return false;
        } catch (ExecutionException expected) {
            if (mode.equals("wait")) sleep(100);
            return true;
        }
    }

    /** Wait until all transactions have their markers. Return how often each value is in the topic. */
    static Map<String, Integer> readCommitted() {
        Map<String, Integer> found = new TreeMap<>();
        try (KafkaConsumer<String, String> committed = consumer("read_committed");
                KafkaConsumer<String, String> all = consumer("read_uncommitted")) {
            while (end(committed) < end(all)) sleep(50);
            committed.assign(List.of(PARTITION));
            committed.seekToBeginning(List.of(PARTITION));
            while (committed.position(PARTITION) < end(all))
                for (ConsumerRecord<String, String> record : committed.poll(Duration.ofMillis(100)))
                    found.merge(record.value(), 1, Integer::sum);
        }
        return found;
    }

    static KafkaConsumer<String, String> consumer(String isolation) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static long end(KafkaConsumer<?, ?> consumer) {
        return consumer.endOffsets(List.of(PARTITION)).get(PARTITION);
    }

    /** Stand between the producer's sender and its network client: count InitProducerId, and change a response. */
    static void watch(KafkaProducer<?, ?> producer) throws Exception {
        Object sender = field(KafkaProducer.class, "sender").get(producer);
        Field clientField = field(sender.getClass(), "client");
        Object client = clientField.get(sender);
        clientField.set(sender, Proxy.newProxyInstance(
            KafkaClient.class.getClassLoader(), new Class<?>[] {KafkaClient.class}, (proxy, method, values) -> {
                if (method.getName().equals("newClientRequest")) {
                    String api = ((AbstractRequest.Builder<?>) values[1]).apiKey().name();
                    if (api.equals("INIT_PRODUCER_ID")) initProducerIds.incrementAndGet();
                    if (api.equals("PRODUCE")) {
                        RequestCompletionHandler handler = (RequestCompletionHandler) values[5];
                        values[5] = (RequestCompletionHandler) response -> {
                            if (response.hasResponse()) change((ProduceResponse) response.responseBody());
                            handler.onComplete(response);
                        };
                    }
                }
                try {
                    return method.invoke(client, values);
                } catch (InvocationTargetException failure) {
                    throw failure.getCause();
                }
            }));
    }

    /** Replace the first success by the error. */
    static void change(ProduceResponse response) {
        response.data().responses().forEach(topic -> topic.partitionResponses().forEach(partition -> {
            boolean appended = partition.errorCode() == Errors.NONE.code();
            if (appended && armed.getAndSet(false)) partition.setErrorCode(error.code());
        }));
    }

    static Field field(Class<?> type, String name) throws NoSuchFieldException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
