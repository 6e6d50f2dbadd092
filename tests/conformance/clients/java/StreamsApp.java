// A Streams application: counts the records of each key of a topic into another topic.

import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;

public final class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("commit.interval.ms", "500");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("processing.guarantee", arguments.length > 5 ? arguments[5] : "at_least_once");
        settings.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .selectKey((key, value) -> key.substring(0, 1)) // a repartition topic
            .groupByKey()
            .count() // a changelog topic
            .toStream()
            .mapValues(String::valueOf)
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        while (streams.state() != KafkaStreams.State.ERROR) {
            Thread.sleep(200);
        }
        System.exit(1);
    }
}
