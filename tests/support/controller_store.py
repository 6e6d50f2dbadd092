"""A controller's store on any disk, driven as the pipeline drives it, without an event loop."""

from typing import TypeVar

from strandline_broker.core.controller.log import snapshot
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import decode
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.producer_ids import decide_producer_ids
from strandline_broker.core.controller.topics.topics import decide_delete_topic
from strandline_broker.hosts.controller.pipeline import replay_log
from strandline_broker.storage.controller.metadata_log import MetadataLog
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_proto.ids import MetadataOffset
from strandline_runtime.runtime import FileSystem
from support.controller_cluster import B1, B2, B3, SESSION_MS, Cluster

Answer = TypeVar("Answer")


def same(a: ControllerState, b: ControllerState) -> bool:
    """Equal, and in the same order: what is pushed and decided goes through them in order."""
    return a == b and _order(a) == _order(b)


def _order(state: ControllerState) -> list[object]:
    topics = [(topic_id, list(topic.partitions)) for topic_id, topic in state.topics.items()]
    return [list(state.brokers), topics, list(state.topic_ids)]


def fold(batches: list[list[bytes]]) -> ControllerState:
    state = ControllerState()
    for values in batches:
        for value in values:
            state.replay(decode(value), state.next_offset)
    return state


class _Recorded(Cluster):
    """Keeps each atomic batch."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        super().__init__((B1, B2, B3))

    def commit(self, decision: Decision[Answer]) -> Answer:
        before = len(self.log)
        answer = super().commit(decision)
        if decision.records:
            self.batches.append(self.log[before:])
        return answer


def some_decisions() -> list[list[bytes]]:
    """Batches of every common kind: epochs, brokers, topics, configuration, producer ids."""
    cluster = _Recorded()
    cluster.topic("a", (B1, B2, B3), (B2, B3, B1), segment_bytes="1000")
    cluster.fence(B2)
    cluster.commit(decide_start(cluster.state, min_insync_replicas=1))
    cluster.up(B2)
    doomed = cluster.topic("b", (B1, B2))
    cluster.now_ms += SESSION_MS + 1
    cluster.register(B3, directory_id="another")
    cluster.alter("", {"log.retention.ms": "5000"})
    cluster.commit(decide_delete_topic(cluster.state, name="b", topic_id=doomed))
    epoch = cluster.state.brokers[B1].epoch
    cluster.commit(decide_producer_ids(cluster.state, B1, epoch))
    cluster.topic("c", (B1,))
    cluster.shut_down(B2)
    return cluster.batches


class StoreRun:
    """One process that has the store open; `state` is what it replayed and appended."""

    def __init__(self, fs: FileSystem, path: str = "/data") -> None:
        self.reports: list[str] = []
        self.directory = DataDirectory.open(
            fs, path, node_id=100, cluster_id="c", new_id=lambda: bytes(range(16))
        )
        self.log = MetadataLog.open(fs, self.directory, self.reports.append)
        self.directory.ensure_store_id()
        self.state = ControllerState()
        replay_log(self.state, self.log)

    def append(self, values: list[bytes]) -> None:
        """One decision; its controller epoch is the one that holds after it."""
        base, last = self.log.append(
            values, controller_epoch=max(self.state.controller_epoch, 0), now_ms=1
        )
        for offset, value in enumerate(values, start=base):
            self.state.replay(decode(value), MetadataOffset(offset))
        assert last == self.state.last_offset

    def snapshot(self) -> int:
        """Take one and drop what it makes superfluous; segments that went."""
        taken = snapshot.take(self.state)
        self.log.seal()
        covers = {"end_offset": taken.end_offset, "controller_epoch": taken.controller_epoch}
        self.log.write_snapshot(taken.values(), now_ms=1, **covers)
        return self.log.forget_covered(**covers)

    def close(self) -> None:
        self.log.close()
        self.directory.close()
