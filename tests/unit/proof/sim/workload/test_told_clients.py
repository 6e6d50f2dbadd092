"""How far the clients have come that may not be exchanged."""

from types import SimpleNamespace
from typing import Any

from strandline.types import ConsumerRecord, TopicPartition
from strandline_chaos.history import History
from strandline_chaos.payload import encode
from strandline_proof.sim.groups.scene import Groups
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.groups import GroupSpec
from strandline_proof.sim.topology.topology import TOPIC, Topology
from strandline_proof.sim.workload.told_clients import Clients
from strandline_proof.sim.workload.work_clients import Stamps
from strandline_proto.partitioner import partition_for


def clients() -> tuple[Clients, History]:
    history = History(None, lambda: 0)
    world: Any = SimpleNamespace(history=history)
    return Clients(world), history


def send(history: History, process: int, key: int, *, is_acknowledged: bool) -> None:
    op = history.invoke_send(process, key, 0)
    if is_acknowledged:
        history.sent(process, op, key, 0, 0)


def test_each_writer_must_have_something_new_acknowledged_everywhere() -> None:
    told, history = clients()
    op = history.invoke_send(1, 0, 0)
    since = len(history.events)
    history.sent(1, op, 0, 0, 0)
    behind = "writer 0 has nothing new acknowledged in partition 0"
    assert told.writers_behind(since, [0], [1]) == behind
    send(history, 1, 0, is_acknowledged=False)
    assert told.writers_behind(since, [0], [1]) == behind
    send(history, 1, 0, is_acknowledged=True)
    assert told.writers_behind(since, [0], [1]) == ""
    assert told.writers_behind(since, [0, 1], [1]).endswith("partition 1")
    assert told.writers_behind(since, [0], [1, 2]).startswith("writer 1")
    assert told.writers_behind(since, [0], [1, None]).startswith("writer 1")


def test_the_reader_must_be_at_the_end_of_what_there_is() -> None:
    told, _ = clients()
    assert told.reader_behind({}) == "the reader has not begun"
    reader: Any = SimpleNamespace(next={0: 7})
    told.reader = reader
    assert told.reader_behind({0: (0, 7), 1: (4, 4)}) == ""
    assert told.reader_behind({0: (0, 8)}) == (
        "the reader is at offset 7 of partition 0, which ends at 8"
    )
    assert "offset 0 of partition 1" in told.reader_behind({1: (0, 1)})


def test_a_member_must_be_given_what_it_owns_to_the_end() -> None:
    topology = Topology(partitions=1, offsets_partitions=1, groups=(GroupSpec(("",)),))
    tp = TopicPartition(TOPIC, 0)
    member = SimpleNamespace(trouble="", owned={tp: None}, positions={tp: 4})
    world: Any = SimpleNamespace(
        topology=topology,
        partitions=1,
        nodes={"member-0-0": SimpleNamespace(running=True, process=member)},
        loop=SimpleNamespace(now=0.0),
    )
    groups = Groups(world)
    assert groups.owners_behind({0: (0, 4)}) == ""
    assert groups.owners_behind({0: (0, 5)}) == (
        "member-0-0 is at offset 4 of partition 0, 5 must come"
    )
    member.owned = {}
    assert "has 0 owners" in groups.owners_behind({0: (0, 4)})


def test_a_record_is_read_as_it_was_sent() -> None:
    failed: list[BaseException] = []
    world: Any = SimpleNamespace(partitions=2, loop=SimpleNamespace(fail=failed.append))
    stamps = Stamps(world)
    key = stamps.key_for(1, 5)
    assert partition_for(key, 2) == 1
    stamps.on_send(1, 5, key, 77)
    assert (stamps.time_of(1, 5), stamps.times_of(1), stamps.times_of(0)) == (77, [77], [])
    record = ConsumerRecord(TOPIC, 1, 3, 77, key, encode(1, 5, 60), (), 0)
    stamps.check(record)
    assert failed == []
    stamps.check(record._replace(timestamp=78))
    stamps.check(record._replace(key=None))
    assert [type(error) for error in failed] == [Violation, Violation]
