"""The reports of the controller, as changes of the recording: brokers and partitions."""

from collections.abc import Callable

from strandline_console.recording.entities import Entity, partition_key
from strandline_console.recording.live import Live
from strandline_proto.v1 import watch_pb2

SERVER = "controller"


class ControllerReport:
    """Takes the frames of the controller. `on_broker` gets the id of each registration."""

    def __init__(self, live: Live, on_broker: Callable[[int], None]) -> None:
        self._live = live
        self._on_broker = on_broker
        self._topic_ids: dict[str, bytes] = {}
        self._brokers: set[int] = set()
        self._reported: dict[str, Entity] = {}

    def fields_of(self, server: str) -> Entity:
        """The reported fields of a broker that discovery has just found."""
        return self._reported.get(server, {})

    def restart(self) -> tuple[set[str], set[int]]:
        """A keyframe begins: returns the keys of partitions and the brokers that were known."""
        known = set(self._topic_ids), self._brokers
        self._topic_ids, self._brokers = {}, set()
        return known

    def drop(self, known: tuple[set[str], set[int]]) -> None:
        """The keyframe is complete: removes what it does not have."""
        partitions, brokers = known
        for key in partitions - self._topic_ids.keys():
            self._live.remove("partitions", key)
        for broker_id in brokers - self._brokers:
            self._drop_broker(broker_id)

    def take(self, frame: watch_pb2.WatchResponse) -> None:
        """Apply the state of one frame."""
        if frame.HasField("controller"):
            self._live.set(
                "servers",
                SERVER,
                {
                    "controller_epoch": frame.controller.controller_epoch,
                    "metadata_offset": frame.controller.metadata_offset,
                },
            )
        for broker_id in frame.removed_brokers:
            self._brokers.discard(broker_id)
            self._drop_broker(broker_id)
        for broker in frame.registered_brokers:
            self._take_broker(broker)
        for removed in frame.removed_topics:
            gone = [k for k, topic_id in self._topic_ids.items() if topic_id == removed.topic_id]
            for key in gone:
                del self._topic_ids[key]
                self._live.remove("partitions", key)
        for topic in frame.partitions:
            for partition in topic.partitions:
                self._take_partition(topic.topic, topic.topic_id, partition)

    def _drop_broker(self, broker_id: int) -> None:
        """The broker has left the cluster: its fields by the controller are unknown."""
        key = f"broker-{broker_id}"
        if key in self._live.maps["servers"]:
            self._live.set(
                "servers",
                key,
                {"fenced": None, "in_controlled_shutdown": None, "decommissioning": None},
            )

    def _take_broker(self, broker: watch_pb2.RegisteredBroker) -> None:
        self._brokers.add(broker.broker_id)
        if broker.HasField("registration"):
            self._on_broker(broker.broker_id)
        fields: Entity = {}
        if broker.HasField("registration"):
            registration = broker.registration
            fields["fenced"] = registration.fenced
            fields["in_controlled_shutdown"] = registration.in_controlled_shutdown
            fields["decommissioning"] = registration.decommissioning
            fields["rack"] = registration.rack or None
            fields["build"] = registration.version or None
            fields["broker_epoch"] = registration.broker_epoch
        if broker.HasField("session"):
            session = broker.session
            heard, ends = session.HasField("last_heartbeat_ms"), session.HasField("ends_ms")
            fields["last_heartbeat_ms"] = session.last_heartbeat_ms if heard else None
            fields["session_ends_ms"] = session.ends_ms if ends else None
        key = f"broker-{broker.broker_id}"
        self._reported[key] = {**self._reported.get(key, {}), **fields}
        if key in self._live.maps["servers"]:
            self._live.set("servers", key, self._reported[key])

    def _take_partition(
        self, topic: str, topic_id: bytes, partition: watch_pb2.WatchedPartition
    ) -> None:
        key = partition_key(topic, partition.partition)
        self._topic_ids[key] = topic_id
        self._live.set(
            "partitions",
            key,
            {
                "topic": topic,
                "partition": partition.partition,
                "topic_id": topic_id.hex(),
                "replicas": list(partition.replicas),
                "adding": list(partition.adding),
                "removing": list(partition.removing),
                "leader": partition.leader_id if partition.HasField("leader_id") else -1,
                "leader_epoch": partition.leader_epoch,
                "partition_epoch": partition.partition_epoch,
                "isr": list(partition.isr),
                "elr": list(partition.elr),
                "last_known_elr": list(partition.last_known_elr),
                "min_isr": partition.min_insync_replicas,
                "recovering": partition.recovering,
            },
        )
