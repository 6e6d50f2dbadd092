// A source connector for Connect: writes the numbers from 0 up, one each 20 ms, and resumes behind the last.

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

public class NumbersSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Numbers.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int tasks) {
        return List.of(settings);
    }

    @Override
    public void stop() { }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "the topic")
            .define("count", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "how many numbers");
    }

    @Override
    public String version() {
        return "1";
    }

    public static class Numbers extends SourceTask {
        private static final Map<String, String> PARTITION = Map.of("numbers", "all");
        private String topic;
        private long count;
        private long next;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            count = Long.parseLong(settings.get("count"));
            Map<String, Object> last = context.offsetStorageReader().offset(PARTITION);
            next = last == null ? 0 : (Long) last.get("last") + 1;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(20);
            if (next == count) {
                return null;
            }
            long number = next++;
            return List.of(new SourceRecord(PARTITION, Map.of("last", number), topic, 0,
                Schema.STRING_SCHEMA, "number", Schema.STRING_SCHEMA, String.valueOf(number)));
        }

        @Override
        public void stop() { }

        @Override
        public String version() {
            return "1";
        }
    }
}
