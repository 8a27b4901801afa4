import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** What both programs say to Kafka Streams, and how they run until SIGTERM. */
final class Settings {
    private Settings() {}

    /** Of a command line of `--name value` pairs. */
    static Properties of(String[] args) {
        Map<String, String> given = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) given.put(args[i], args[i + 1]);
        Properties own = new Properties();
        own.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, needed(given, "--brokers"));
        own.put(StreamsConfig.APPLICATION_ID_CONFIG, needed(given, "--application-id"));
        own.put(StreamsConfig.STATE_DIR_CONFIG, needed(given, "--state-dir"));
        own.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, needed(given, "--guarantee"));
        own.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, given.getOrDefault("--threads", "1"));
        own.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        own.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        // 0: each input's total goes on, and not the last alone.
        own.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, given.getOrDefault("--cache-bytes", "0"));
        own.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, given.getOrDefault("--commit-ms", "100"));
        own.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, "3600000"); // Fencepost reads the repartition topics
        own.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // A failover that is quick.
        own.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), "6000");
        own.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), "1000");
        own.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), "10000");
        return own;
    }

    private static String needed(Map<String, String> given, String name) {
        String value = given.get(name);
        if (value == null) {
            System.err.println(name + " VALUE is needed");
            System.exit(2);
        }
        return value;
    }

    /** Until SIGTERM; a thread that fails is replaced. */
    static void run(Topology topology, Properties settings) throws InterruptedException {
        System.out.println(topology.describe());
        KafkaStreams streams = new KafkaStreams(topology, settings);
        CountDownLatch over = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("a thread failed, and is replaced: " + error);
            error.printStackTrace(System.out);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + before + " -> " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.println("closed: " + streams.close(Duration.ofSeconds(20)));
            over.countDown();
        }));
        streams.start();
        over.await();
    }
}
