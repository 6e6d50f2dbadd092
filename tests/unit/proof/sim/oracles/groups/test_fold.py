"""What an oracle reads in a shard's log is what the shard has, and what it has changed is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.groups.commands import ConsumerBeat
from strandline_broker.core.groups.effects import RebalanceTimer, SessionTimer
from strandline_broker.core.groups.records import codec
from strandline_proof.sim.oracles.groups.fold import NOTHING, Fold, apply, read_decision
from strandline_proof.sim.oracles.groups.shards import (
    check_fold,
    check_gone,
    check_may_serve,
    check_timers,
)
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import EndMarkerRecord, build_batch, build_end_marker, prefix
from support.groups_rig import WALL_MS, GroupsRig
from support.transactional_rig import Entry, TransactionalRig, key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.coordination.decision import Record
    from strandline_broker.core.groups.effects import MemberTimer
    from strandline_broker.core.groups.group_table import GroupTable


def folded(records: Iterable[Record]) -> Fold:
    return apply(
        NOTHING, read_decision(build_batch(map(codec.encode, records), timestamp_ms=WALL_MS))
    )


@pytest.fixture
def rig() -> GroupsRig:
    """m1 is to give up a partition for m2."""
    rig = GroupsRig()
    rig.topic("t", 3)
    rig.join("m1", "t")
    rig.commit(7, partition=1, member_id="m1", member_epoch=1)
    rig.join("m2", "t")
    rig.beat("m1", 1)
    return rig


def test_the_fold_is_the_shards_state(rig: GroupsRig) -> None:
    check_fold("here", folded(rig.log), rig.groups.table)
    rig.run(ConsumerBeat(group_id="g", member_id="m1", member_epoch=-1))
    check_fold("here", folded(rig.log), rig.groups.table)


@pytest.mark.parametrize("change", ["group", "offset", "holder"])
def test_another_state_is_named(rig: GroupsRig, change: str) -> None:
    table: GroupTable = rig.groups.table
    if change == "group":
        del table.consumer["g"].currents["m1"]
    elif change == "offset":
        table.offsets["g"]["t"].clear()
    else:
        table.consumer["g"].holders.popitem()
    with pytest.raises(Violation, match="I-130" if change == "holder" else "I-102"):
        check_fold("here", folded(rig.log), table)


def test_a_record_that_does_not_parse_is_named() -> None:
    with pytest.raises(Violation, match="I-102"):
        read_decision(build_batch([(b"\x00\x03\x00\x09g", b"")], timestamp_ms=WALL_MS))


def test_every_member_has_its_timers(rig: GroupsRig) -> None:
    fold = folded(rig.log)
    timers: set[MemberTimer] = {
        key for key in rig.timers if isinstance(key, SessionTimer | RebalanceTimer)
    }
    assert timers == {SessionTimer("g", "m1"), SessionTimer("g", "m2"), RebalanceTimer("g", "m1")}
    check_timers("here", fold, timers)
    for lacking in timers:
        with pytest.raises(Violation, match="I-137"):
            check_timers("here", fold, timers - {lacking})
    with pytest.raises(Violation, match="I-137"):
        check_timers("here", fold, timers | {SessionTimer("g", "m3")})


@pytest.mark.parametrize(
    ("leads", "epochs_agree", "mark"), [(False, False, 5), (True, False, 5), (True, True, 4)]
)
def test_who_may_not_serve_is_named(leads: bool, epochs_agree: bool, mark: int) -> None:
    check_may_serve("here", leads=True, epochs_agree=True, mark=5, begun=5)
    with pytest.raises(Violation, match="I-101"):
        check_may_serve("here", leads=leads, epochs_agree=epochs_agree, mark=mark, begun=5)


@pytest.mark.parametrize("left", ["timers", "groups", "streams", "calls", "waiting", None])
def test_what_is_left_of_a_leadership_is_named(left: str | None) -> None:
    host: Any = SimpleNamespace(
        context=SimpleNamespace(
            timers=SimpleNamespace(running=lambda _: {1} if left == "timers" else set())
        ),
        application=SimpleNamespace(
            groups=SimpleNamespace(group_ids=lambda: ("g",) if left == "groups" else ()),
            sessions=[1] if left == "streams" else [],
            calls=[1] if left == "calls" else [],
        ),
        machine=SimpleNamespace(waiting=int(left == "waiting")),
    )
    if left is None:
        check_gone("here", host)
        return
    with pytest.raises(Violation, match="I-110"):
        check_gone("here", host)


def test_the_fold_of_a_transaction_is_the_shards_state() -> None:
    """Staged, overtaken, committed and aborted offsets, and the groups that a marker is about."""
    rig = TransactionalRig()
    rig.topic("t", 3)
    fold, written = NOTHING, 0

    def check() -> None:
        nonlocal fold, written
        for entry in rig.entries[written:]:
            fold = apply(fold, read_decision(batch_of(entry)))
        written = len(rig.entries)
        check_fold("here", fold, rig.groups.table)

    for producer, partition in ((1, 0), (2, 0), (1, 1)):
        rig.txn_commit(5 + producer, producer_id=producer, partition=partition)
        check()
    rig.commit(9, partition=1)
    check()
    rig.groups.table.pending.drop(key(0))
    with pytest.raises(Violation, match="I-146"):
        check()
    rig.fail_over()
    rig.mark(2)
    check()
    assert fold.end_of("g") == rig.end
    rig.mark(1)
    check()
    assert {at.partition: value.offset for at, value in fold.offsets.items()} == {0: 7, 1: 9}
    rig.txn_commit(11, partition=2)
    check()
    rig.mark(is_commit=False)
    check()
    assert not fold.staged


def batch_of(entry: Entry) -> bytes:
    if entry.record is None:
        marker = EndMarkerRecord(entry.is_commit, 1)
        batch = build_end_marker(entry.producer_id, 0, marker, timestamp_ms=WALL_MS)
    else:
        batch = build_batch(
            [codec.encode(entry.record)],
            timestamp_ms=WALL_MS,
            is_transactional=entry.producer_id >= 0,
            producer_id=entry.producer_id,
            producer_epoch=0 if entry.producer_id >= 0 else -1,
            base_sequence=0 if entry.producer_id >= 0 else -1,
        )
    return prefix(entry.offset, len(batch) - 12, 0) + batch[16:]
