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

/** The settings of all programs for Kafka Streams, and the code that runs them until SIGTERM. */
final class Settings {
    private Settings() {}

    /** Returns the settings for a command line of `--name value` pairs. */
    static Properties of(String[] args) {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) options.put(args[i], args[i + 1]);
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, required(options, "--brokers"));
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, required(options, "--application-id"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, required(options, "--state-dir"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, required(options, "--guarantee"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.getOrDefault("--threads", "1"));
        settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, options.getOrDefault("--standby-replicas", "0"));
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        // 0: every total is written, and not only the last of several totals of a key.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, options.getOrDefault("--cache-bytes", "0"));
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, options.getOrDefault("--commit-ms", "100"));
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, "3600000"); // Fencepost reads the repartition topics at the end
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // A short session time-out makes the failover quick.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), "6000");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), "1000");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), "10000");
        return settings;
    }

    private static String required(Map<String, String> options, String name) {
        String value = options.get(name);
        if (value == null) {
            System.err.println("the option " + name + " is missing: add " + name + " VALUE");
            System.exit(2);
        }
        return value;
    }

    /** Runs the program until SIGTERM. A stream thread that fails is replaced. */
    static void run(Topology topology, Properties settings) throws InterruptedException {
        System.out.println(topology.describe());
        KafkaStreams streams = new KafkaStreams(topology, settings);
        CountDownLatch closed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("a stream thread failed and is replaced: " + error);
            error.printStackTrace(System.out);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + before + " -> " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.println("closed: " + streams.close(Duration.ofSeconds(20)));
            closed.countDown();
        }));
        streams.start();
        closed.await();
    }
}
