// A mover or a reader of `strandline chaos transfers` with Java's kafka-clients: the arguments of
// strandline_chaos.transfers.ours, and the same lines.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Transfers {
    static final int AMOUNT_MAX = 100;
    static final double ABORTED_SHARE = 0.1;
    static final long PATIENCE_NS = 60_000_000_000L;

    /** The producer cannot go on. */
    static final class Lost extends Exception {
        final String outcome;

        Lost(String outcome, Exception cause) {
            super(cause);
            this.outcome = outcome;
        }
    }

    static boolean stopping;
    static boolean pausing;
    static final Object GATE = new Object();

    final String bootstrap;
    final String topic;
    final int partitions;
    final int accounts;
    final String name;
    final Random random;
    final long paceMs;

    Transfers(String[] arguments) {
        bootstrap = arguments[1];
        topic = arguments[2];
        partitions = Integer.parseInt(arguments[3]);
        accounts = Integer.parseInt(arguments[4]);
        name = arguments[5];
        random = new Random(Long.parseLong(arguments[6]));
        paceMs = (long) (1000 / Double.parseDouble(arguments[7]));
    }

    public static void main(String[] arguments) throws Exception {
        Thread listener = new Thread(Transfers::listen);
        listener.setDaemon(true);
        listener.start();
        Transfers party = new Transfers(arguments);
        if (arguments[0].equals("mover")) {
            party.move();
        } else {
            party.read();
        }
        System.exit(0);
    }

    static void listen() {
        try (var input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                hear(line.strip());
            }
        } catch (java.io.IOException error) {
            say("note " + error);
        }
        hear("stop");
    }

    static void hear(String word) {
        synchronized (GATE) {
            pausing = word.equals("pause");
            stopping |= word.equals("stop");
            GATE.notifyAll();
        }
    }

    /** Returns at once, or after `go` if the run wants quiescence; false: to stop. */
    static boolean passGate() throws InterruptedException {
        synchronized (GATE) {
            if (pausing) {
                say("paused");
            }
            while (pausing) {
                GATE.wait();
            }
            return !stopping;
        }
    }

    static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    void move() throws InterruptedException {
        boolean settled = false;
        int count = 0;
        while (passOrUnsettled(settled)) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("transactional.id", name);
            var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            try {
                producer.initTransactions();
                say("ready");
                settled = true;
                while (passGate()) {
                    count++;
                    int source = random.nextInt(accounts);
                    int target = (source + 1 + random.nextInt(accounts - 1)) % accounts;
                    int amount = 1 + random.nextInt(AMOUNT_MAX);
                    String transfer = name + "-" + count;
                    say("begun " + transfer + " " + source + " " + target + " " + amount);
                    settled = false;
                    String outcome;
                    try {
                        outcome = one(producer, transfer, source, target, amount);
                    } catch (Lost lost) {
                        say(lost.outcome + " " + transfer);
                        throw lost;
                    }
                    settled = true;
                    say(outcome + " " + transfer);
                    Thread.sleep(paceMs);
                }
            } catch (Lost | KafkaException error) {
                say("note " + error + " " + error.getCause());
                Thread.sleep(200);
            } finally {
                producer.close(Duration.ofSeconds(5));
            }
        }
    }

    static boolean passOrUnsettled(boolean settled) {
        synchronized (GATE) {
            return !(stopping && settled);
        }
    }

    String one(KafkaProducer<String, String> producer, String transfer, int source, int target, int amount)
            throws Lost {
        boolean commits = random.nextDouble() >= ABORTED_SHARE;
        boolean asked = false;
        try {
            producer.beginTransaction();
            send(producer, source, transfer + " " + source + " " + -amount);
            send(producer, target, transfer + " " + target + " " + amount);
            if (commits) {
                asked = true;
                untilAnswered(producer::commitTransaction);
                return "committed";
            }
        } catch (KafkaException error) {
            say("note " + error);
        }
        try {
            untilAnswered(producer::abortTransaction);
        } catch (KafkaException error) {
            throw new Lost(asked ? "unknown" : "aborted", error);
        }
        return "aborted";
    }

    void send(KafkaProducer<String, String> producer, int account, String text) {
        producer.send(new ProducerRecord<>(topic, account % partitions, null, text));
    }

    /** Repeats a call that got no answer, which is the same call to the coordinator. */
    static void untilAnswered(Runnable call) {
        long deadline = System.nanoTime() + PATIENCE_NS;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                say("note " + error);
            }
        }
    }

    void read() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        List<TopicPartition> places = new ArrayList<>();
        for (int each = 0; each < partitions; each++) {
            places.add(new TopicPartition(topic, each));
        }
        Map<TopicPartition, Long> at = new HashMap<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(places);
            consumer.seekToBeginning(places);
            say("ready");
            while (passOrUnsettled(true)) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500))) {
                    say("leg " + each.partition() + " " + each.offset() + " " + each.value());
                }
                for (TopicPartition place : places) {
                    try {
                        long position = consumer.position(place, Duration.ofSeconds(5));
                        if (!Long.valueOf(position).equals(at.put(place, position))) {
                            say("at " + place.partition() + " " + position);
                        }
                    } catch (TimeoutException error) {
                        say("note " + error);
                    }
                }
            }
        }
    }
}
