// Driver of Java's kafka-clients: one JSON request a line in, one JSON answer a line out.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Driver {
    static final long TIMEOUT_S = 45;
    static final Duration POLL = Duration.ofMillis(200);
    static final Map<String, String> STRATEGIES = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    /** A consumer of a group, what it polled and did not hand out yet, and its rebalances. */
    static final class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Deque<ConsumerRecord<byte[], byte[]>> polled = new ArrayDeque<>();
        final Map<TopicPartition, OffsetAndMetadata> handed = new HashMap<>();
        List<Object> events = new ArrayList<>();

        Member(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            events.add(List.of("assigned", numbers(partitions)));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            events.add(List.of("revoked", numbers(partitions)));
            polled.removeIf(each -> partitions.contains(new TopicPartition(each.topic(), each.partition())));
            handed.keySet().removeAll(partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            events.add(List.of("lost", numbers(partitions)));
            polled.clear();
            handed.keySet().removeAll(partitions);
        }
    }

    final String bootstrap;
    final Admin admin;
    final Map<String, Member> members = new HashMap<>();
    final Map<String, KafkaProducer<byte[], byte[]>> transactional = new HashMap<>();

    Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(base());
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver(arguments[0]);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.putAll(driver.answer(new Json(line).object()));
                answer.put("ok", true);
            } catch (UnsupportedOperationException error) {
                answer.put("ok", false);
                answer.put("unsupported", true);
                answer.put("error", error.getMessage());
            } catch (Exception error) {
                answer.put("ok", false);
                answer.put("error", String.valueOf(error));
            }
            output.println(Json.text(answer));
        }
        System.exit(0);
    }

    Map<String, Object> answer(Map<String, Object> request) throws Exception {
        String op = (String) request.get("op");
        switch (op) {
            case "version":
                return Map.of("version", version());
            case "create_topic":
                var topic = new NewTopic(text(request, "topic"), (int) number(request, "partitions"),
                    (short) number(request, "replication"));
                await(admin.createTopics(List.of(topic)).all());
                return Map.of();
            case "delete_topic":
                await(admin.deleteTopics(List.of(text(request, "topic"))).all());
                return Map.of();
            case "topics":
                return Map.of("topics", new ArrayList<>(new TreeSet<>(await(admin.listTopics().names()))));
            case "delete_records":
                return deleteRecords(request);
            case "produce":
                return produce(request);
            case "tx_open":
                return txOpen(request);
            case "tx_send":
                return txSend(request);
            case "tx_offsets":
                Member polling = members.get(text(request, "member"));
                transactional.get(text(request, "name"))
                    .sendOffsetsToTransaction(polling.handed, polling.consumer.groupMetadata());
                return Map.of();
            case "tx_end":
                var ending = transactional.get(text(request, "name"));
                if ((Boolean) request.get("commit")) {
                    ending.commitTransaction();
                } else {
                    ending.abortTransaction();
                }
                return Map.of();
            case "tx_close":
                transactional.remove(text(request, "name")).close(Duration.ofSeconds(5));
                return Map.of();
            case "read":
                return read(request);
            case "open":
                return open(request);
            case "poll":
                return poll(request);
            case "commit":
                Member committing = members.get(text(request, "name"));
                committing.consumer.commitSync(committing.handed, Duration.ofSeconds(TIMEOUT_S));
                return Map.of();
            case "close":
                members.remove(text(request, "name")).consumer.close();
                return Map.of();
            case "offsets_for_time":
                return offsetsForTime(request);
            default:
                throw new UnsupportedOperationException("the Java driver has no operation " + op);
        }
    }

    Map<String, Object> deleteRecords(Map<String, Object> request) throws Exception {
        Map<TopicPartition, RecordsToDelete> asked = new HashMap<>();
        map(request, "before").forEach((partition, offset) -> asked.put(
            new TopicPartition(text(request, "topic"), Integer.parseInt(partition)),
            RecordsToDelete.beforeOffset((Long) offset)));
        Map<String, Object> low = new LinkedHashMap<>();
        for (Map.Entry<TopicPartition, KafkaFuture<DeletedRecords>> each
                : admin.deleteRecords(asked).lowWatermarks().entrySet()) {
            low.put(String.valueOf(each.getKey().partition()), await(each.getValue()).lowWatermark());
        }
        return Map.of("low", low);
    }

    Map<String, Object> produce(Map<String, Object> request) throws Exception {
        Properties settings = base();
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("compression.type", request.getOrDefault("codec", "none"));
        long pace = (Long) request.getOrDefault("pace_ms", 0L);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<Object> placed = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (Object each : (List<?>) request.get("records")) {
                Map<String, Object> asked = object(each);
                Object timestamp = asked.get("timestamp");
                var record = new ProducerRecord<>(text(request, "topic"), (int) number(asked, "partition"),
                    (Long) timestamp, bytes(asked.get("key")), bytes(asked.get("value")));
                for (Object header : (List<?>) asked.getOrDefault("headers", List.of())) {
                    List<?> pair = (List<?>) header;
                    record.headers().add((String) pair.get(0), bytes(pair.get(1)));
                }
                sent.add(producer.send(record));
                Thread.sleep(pace);
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                RecordMetadata at = each.get(TIMEOUT_S, TimeUnit.SECONDS);
                placed.add(List.of(at.partition(), at.offset()));
            }
        }
        return Map.of("placed", placed);
    }

    Map<String, Object> txOpen(Map<String, Object> request) {
        Properties settings = base();
        settings.put("transactional.id", text(request, "transactional_id"));
        var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        transactional.put(text(request, "name"), producer);
        return Map.of();
    }

    /** Begins a transaction and sends records in it. */
    Map<String, Object> txSend(Map<String, Object> request) throws Exception {
        var producer = transactional.get(text(request, "name"));
        producer.beginTransaction();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Object each : (List<?>) request.get("records")) {
            Map<String, Object> asked = object(each);
            sent.add(producer.send(new ProducerRecord<>(text(request, "topic"), (int) number(asked, "partition"),
                (Long) asked.get("timestamp"), bytes(asked.get("key")), bytes(asked.get("value")))));
        }
        producer.flush();
        for (Future<RecordMetadata> each : sent) {
            each.get(TIMEOUT_S, TimeUnit.SECONDS);
        }
        return Map.of();
    }

    Map<String, Object> read(Map<String, Object> request) {
        List<TopicPartition> partitions = partitions(request);
        List<Object> records = new ArrayList<>();
        long deadline = System.nanoTime() + seconds(request);
        Properties settings = base();
        boolean committed = (Boolean) request.getOrDefault("committed", false);
        settings.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        try (var consumer = consumer(settings)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("positions do not reach " + ends);
                }
                consumer.poll(POLL).forEach(each -> records.add(shown(each)));
            }
        }
        return Map.of("records", records);
    }

    Map<String, Object> open(Map<String, Object> request) {
        Properties settings = base();
        settings.put("group.id", text(request, "group"));
        settings.put("group.protocol", request.getOrDefault("protocol", "classic"));
        settings.put("auto.offset.reset", "earliest");
        if (request.get("instance") != null) {
            settings.put("group.instance.id", text(request, "instance"));
        }
        if (request.get("strategy") != null) {
            settings.put("partition.assignment.strategy", STRATEGIES.get(text(request, "strategy")));
        }
        Member member = new Member(consumer(settings));
        member.consumer.subscribe(List.of(text(request, "topic")), member);
        members.put(text(request, "name"), member);
        return Map.of();
    }

    Map<String, Object> poll(Map<String, Object> request) {
        Member member = members.get(text(request, "name"));
        long count = number(request, "count");
        long deadline = System.nanoTime() + seconds(request);
        List<Object> records = new ArrayList<>();
        while ((count == 0 || records.size() < count) && System.nanoTime() < deadline) {
            if (member.polled.isEmpty()) {
                member.consumer.poll(POLL).forEach(member.polled::add);
            }
            while (!member.polled.isEmpty() && (count == 0 || records.size() < count)) {
                ConsumerRecord<byte[], byte[]> each = member.polled.poll();
                member.handed.put(new TopicPartition(each.topic(), each.partition()),
                    new OffsetAndMetadata(each.offset() + 1));
                records.add(shown(each));
            }
        }
        List<Object> events = member.events;
        member.events = new ArrayList<>();
        return Map.of("records", records, "assigned", numbers(member.consumer.assignment()), "events", events);
    }

    Map<String, Object> offsetsForTime(Map<String, Object> request) {
        Map<TopicPartition, Long> asked = new HashMap<>();
        partitions(request).forEach(each -> asked.put(each, number(request, "at")));
        Map<String, Object> offsets = new LinkedHashMap<>();
        try (var consumer = consumer(base())) {
            consumer.offsetsForTimes(asked).forEach((each, found) ->
                offsets.put(String.valueOf(each.partition()), found == null ? -1L : found.offset()));
        }
        return Map.of("offsets", offsets);
    }

    static String version() throws Exception {
        Properties found = new Properties();
        try (var stream = Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            found.load(stream);
        }
        return found.getProperty("version");
    }

    Properties base() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Properties settings) {
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static <T> T await(KafkaFuture<T> future) throws Exception {
        return future.get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    static Map<String, Object> shown(ConsumerRecord<byte[], byte[]> each) {
        List<Object> headers = new ArrayList<>();
        for (Header header : each.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(base64(header.value()));
            headers.add(pair);
        }
        Map<String, Object> record = new LinkedHashMap<>();
        record.put("partition", each.partition());
        record.put("offset", each.offset());
        record.put("timestamp", each.timestamp());
        record.put("key", base64(each.key()));
        record.put("value", base64(each.value()));
        record.put("headers", headers);
        return record;
    }

    static List<Object> numbers(Collection<TopicPartition> partitions) {
        TreeSet<Integer> found = new TreeSet<>();
        partitions.forEach(each -> found.add(each.partition()));
        return new ArrayList<>(found);
    }

    static List<TopicPartition> partitions(Map<String, Object> request) {
        List<TopicPartition> found = new ArrayList<>();
        for (Object each : (List<?>) request.get("partitions")) {
            found.add(new TopicPartition(text(request, "topic"), ((Long) each).intValue()));
        }
        return found;
    }

    static String base64(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }

    static byte[] bytes(Object value) {
        return value == null ? null : Base64.getDecoder().decode((String) value);
    }

    static String text(Map<String, Object> request, String name) {
        return (String) request.get(name);
    }

    static long number(Map<String, Object> request, String name) {
        return (Long) request.get(name);
    }

    static long seconds(Map<String, Object> request) {
        return (long) (((Number) request.get("timeout_s")).doubleValue() * 1e9);
    }

    static Map<String, Object> map(Map<String, Object> request, String name) {
        return object(request.get(name));
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    /** As much of JSON as the requests and answers use. */
    static final class Json {
        final String source;
        int at;

        Json(String source) {
            this.source = source;
        }

        Map<String, Object> object() {
            Map<String, Object> found = new LinkedHashMap<>();
            at++;
            while (peek() != '}') {
                String name = string();
                peek();
                at++;
                found.put(name, value());
                skipComma();
            }
            at++;
            return found;
        }

        Object value() {
            switch (peek()) {
                case '{':
                    return object();
                case '[':
                    List<Object> found = new ArrayList<>();
                    at++;
                    while (peek() != ']') {
                        found.add(value());
                        skipComma();
                    }
                    at++;
                    return found;
                case '"':
                    return string();
                default:
                    int start = at;
                    while ("+-.eEtrufalsn0123456789".indexOf(source.charAt(at)) >= 0) {
                        at++;
                    }
                    return literal(source.substring(start, at));
            }
        }

        static Object literal(String word) {
            switch (word) {
                case "null":
                    return null;
                case "true":
                case "false":
                    return Boolean.valueOf(word);
                default:
                    if (word.contains(".") || word.contains("e")) {
                        return Double.valueOf(word);
                    }
                    return Long.valueOf(word);
            }
        }

        String string() {
            peek();
            StringBuilder found = new StringBuilder();
            for (at++; source.charAt(at) != '"'; at++) {
                char next = source.charAt(at);
                if (next == '\\') {
                    at++;
                    next = source.charAt(at);
                    if (next == 'u') {
                        next = (char) Integer.parseInt(source.substring(at + 1, at + 5), 16);
                        at += 4;
                    } else if (next == 'n') {
                        next = '\n';
                    }
                }
                found.append(next);
            }
            at++;
            return found.toString();
        }

        char peek() {
            while (source.charAt(at) == ' ') {
                at++;
            }
            return source.charAt(at);
        }

        void skipComma() {
            if (peek() == ',') {
                at++;
            }
        }

        static String text(Object value) {
            if (value instanceof Map<?, ?> map) {
                List<String> pairs = new ArrayList<>();
                map.forEach((name, each) -> pairs.add(text(String.valueOf(name)) + ":" + text(each)));
                return "{" + String.join(",", pairs) + "}";
            }
            if (value instanceof Collection<?> list) {
                List<String> items = new ArrayList<>();
                list.forEach(each -> items.add(text(each)));
                return "[" + String.join(",", items) + "]";
            }
            if (value instanceof String string) {
                StringBuilder found = new StringBuilder("\"");
                for (char each : string.toCharArray()) {
                    if (each < ' ' || each == '"' || each == '\\' || each > '~') {
                        found.append(String.format("\\u%04x", (int) each));
                    } else {
                        found.append(each);
                    }
                }
                return found.append('"').toString();
            }
            return String.valueOf(value);
        }
    }
}
