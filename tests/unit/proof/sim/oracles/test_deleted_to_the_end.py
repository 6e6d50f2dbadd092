"""A follower whose log is deleted to its end holds nothing, whatever history it had: it takes any
that its leader has there, also within a batch (I-39, I-75, P-52).
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.replica.leaders import LeaderOracle
from strandline_proof.sim.oracles.replica.log_starts import LogStartOracle
from strandline_proof.sim.oracles.replica.log_view import OVERHEAD, Entry, LogView
from strandline_proof.sim.oracles.replica.replica import Replica
from strandline_proof.sim.oracles.replica.replicas import ReplicaOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import DATA, Topology
from strandline_proto.batch import prefix, read_header
from support.storage import LARGE, Store, batch_of

TOPIC_ID = bytes(range(16))
KEY = TOPIC_ID, 0
END = 3
"""Of what the follower has written itself, in an epoch that its leader does not know."""


def view_of(*epochs: int) -> LogView:
    """A log of one batch for each, with as many records as there are epochs before it, and one."""
    view = LogView(SimDisk(random.Random(0), lambda: 0.0), f"{DATA}/t-0")
    for number, epoch in enumerate(epochs):
        previous = view.entries[-1].identity if view.entries else None
        view.entries.append(Entry(view.end, view.end + number + 1, epoch, number, previous))
    return view


def counted(
    at: int,
    *,
    log_start: int,
    leader: LogView,
    deleted: int = END,
    begins_at: int | None = None,
    leader_epoch: int = 8,
) -> None:
    """The leader counts that position of a follower that begins at `log_start` by its own word, and
    really at `begins_at`; all before `deleted` is, of what offsets name now.
    """
    ghost = Committed(0, min_insync=2, always=False)
    ghost._removed_to = deleted
    other = SimpleNamespace(
        name="broker-2",
        running=True,
        process=SimpleNamespace(
            lifecycle=SimpleNamespace(broker_epoch=4),
            replicas=SimpleNamespace(
                partitions={
                    KEY: SimpleNamespace(
                        leader_epoch=8,
                        gate=SimpleNamespace(locked=lambda: False),
                        healing=False,
                        log=SimpleNamespace(
                            log_start_offset=log_start if begins_at is None else begins_at
                        ),
                    )
                }
            ),
        ),
    )
    views = {"broker-2": view_of(6, 6), "broker-3": leader}
    oracle: Any = object.__new__(LeaderOracle)
    oracle._nodes, oracle._always = {2: other}, False
    oracle._replicas = SimpleNamespace(
        known=lambda node, key: views[node.name],
        ghost=lambda key: ghost,
        log_starts=LogStartOracle(Counter()),
    )
    follower = SimpleNamespace(log_end_offset=at, log_start_offset=log_start, broker_epoch=4)
    leads = SimpleNamespace(leader_epoch=leader_epoch, log_start_offset=0)
    oracle._check_held(SimpleNamespace(name="broker-3"), KEY, leads, 2, follower, "here")


@pytest.mark.parametrize("epochs", [(0, 0, 8), (0, 8, 8), (8, 8, 8)])
def test_it_counts_where_another_history_goes_on(epochs: tuple[int, ...]) -> None:
    counted(END, log_start=END, leader=view_of(*epochs))


def test_it_counts_within_a_batch_of_the_leader() -> None:
    leader = view_of(0)
    leader.entries.append(Entry(1, END + 2, 0, 9, (0, 0)))
    counted(END, log_start=END, leader=leader)


@pytest.mark.parametrize("log_start", [0, END - 1])
def test_what_it_has_not_deleted_must_be_what_the_leader_has(log_start: int) -> None:
    counted(END, log_start=log_start, leader=view_of(6, 6))
    with pytest.raises(Violation, match="I-39"):
        counted(END, log_start=log_start, leader=view_of(0, 0, 8))


def test_nor_does_it_count_where_offsets_name_what_nobody_has_deleted() -> None:
    """An unclean election has given them to other records since."""
    with pytest.raises(Violation, match="I-39"):
        counted(END, log_start=END, leader=view_of(0, 8), deleted=END - 1)


def test_what_a_leader_counted_before_another_one_led_is_no_word_of_now() -> None:
    """It stood still meanwhile, and the follower's log begins where the new leader's does."""
    old: Any = {"log_start": END, "leader": view_of(8, 8), "begins_at": END - 1}
    counted(END, leader_epoch=7, **old)
    with pytest.raises(Violation, match="I-75"):
        counted(END, leader_epoch=8, **old)


@pytest.mark.parametrize("base", [END - 1, END])
def test_its_log_goes_on_in_its_leaders_history(base: int) -> None:
    disk = SimDisk(random.Random(0), lambda: 0.0)
    store = Store(Path(DATA), LARGE, SimFs(disk))
    for value in (b"a", b"b", b"c"):
        store.append(value, epoch=6)
    store.flush()
    view = LogView(disk, str(store.log_dir))
    view.read_to(END, "its own")
    store.shorten(END)
    store.log.truncate_to(END)  # with the epoch, in which nothing is left

    anything: Any = SimpleNamespace(decided=SimpleNamespace())
    oracle = ReplicaOracle(anything, Topology(), anything, Counter())
    node: Any = SimpleNamespace(name="broker-2", incarnation=1, process=None, disk=disk)
    partition: Any = Partition(store)
    known = oracle._replicas["broker-2", KEY] = Replica(1, partition, view)
    known.end = known.start = known.high_watermark = END
    known.is_due = False

    store.log.append_as_follower(taken(base, b"x", b"y"), leader_epoch=8)
    oracle.on_step(node, KEY, partition)
    assert [entry.identity for entry in view.entries] == [(base, 0)]
    assert (view.start, view.end) == (END, base + 2)


class Partition:
    """A follower, which is told apart by who it is."""

    name, key = "t-0", KEY
    leader = follower = state = None
    leader_epoch = 8
    high_watermark = END

    def __init__(self, store: Store) -> None:
        self.log = store.log
        self.gate = SimpleNamespace(locked=lambda: False)


def taken(base: int, *values: bytes) -> bytes:
    """A batch as its leader has it."""
    batch = batch_of(*values)
    head = prefix(base, read_header(batch).size - OVERHEAD, 0)
    return head + batch[len(head) :]
