"""What clients do in whole clusters in virtual time: bursts, seeks, saved places, look-ups by time,
few acks, forgotten producers, sequences that begin anew; and the same clients reach the end.
"""

import asyncio
from typing import Any

import pytest

from strandline import Producer
from strandline._consumer.fetcher import Fetcher
from strandline._core.partition_queue import PartitionQueue
from strandline._producer.sender import Sender
from strandline.consumer import Consumer
from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run, RunResult, run_plan
from strandline_proof.sim.topology.topology import Topology
from strandline_proof.sim.topology.work import Work
from strandline_proof.sim.workload.low_acks import Loose
from strandline_proto.batch import SEQUENCE_MAX

KILL = Fault(2.0, "kill", {"node": "leader-0", "restart_s": 1.0})
SILENT = Fault(3.5, "isolate", {"node": "leader-0", "for_s": 1.5, "hold": False})
BURSTS = {"burst": 20, "linger_ms": 50, "batch_bytes": 1500}


def plan_of(*faults: Fault, partitions: int = 2, chaos_s: float = 5.0, **work: Any) -> Plan:
    topology = Topology(partitions=partitions, work=Work(**work))
    return Plan(seed=1, topology=topology, faults=faults, chaos_s=chaos_s)


def sound(plan: Plan) -> RunResult:
    result = run_plan(plan)
    assert result.failure is None, result.timeline.text()
    return result


# Bursts.


@pytest.mark.parametrize("how", [{}, {"keyed": True, "spread_ms": 300}, {"compression": "zstd"}])
def test_most_batches_of_bursts_hold_several_records(how: dict[str, Any]) -> None:
    some = sound(plan_of(KILL, **BURSTS, **how)).sometimes
    assert some["batch of several records"] > some["batch of one record"]
    assert some["record in a batch of several"] > 3 * some["batch of several records"]


def test_without_bursts_each_batch_holds_one() -> None:
    some = sound(plan_of()).sometimes
    assert some["batch of one record"] > 10 * some["batch of several records"]


# The same clients.


def test_the_same_clients_go_on_after_a_failure() -> None:
    run = Run(plan_of(KILL, lasting=True))
    result = run.execute()
    assert result.failure is None, result.timeline.text()
    writers = {e.process for e in run.world.history.events if e.f == "send"}
    readers = {e.process for e in run.world.history.events if e.f == "poll"}
    assert len(writers) == 2
    assert len(readers) <= 3, "one, but for tries before the topic was there, and the last reading"


def test_a_reader_that_stops_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Fetcher.wanted

    def wanted(self: Fetcher, broker_id: int) -> Any:
        found, crowded = real(self, broker_id)
        if self._now_ms() > 2500:
            found = {key: want for key, want in found.items() if key[1] == 0}
        return found, crowded

    monkeypatch.setattr(Fetcher, "wanted", wanted)
    result = run_plan(plan_of(lasting=True))
    assert result.invariant == "I-88"
    assert "the reader is at offset" in result.what
    assert "of partition 1, which ends at" in result.what


def test_a_writer_that_stops_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Sender.dispatch

    def dispatch(self: Sender, queue: PartitionQueue) -> None:
        if queue.partition == 0 or self.runtime.clock.monotonic() < 2.5:
            real(self, queue)

    monkeypatch.setattr(Sender, "dispatch", dispatch)
    result = run_plan(plan_of(lasting=True))
    assert result.invariant == "I-88"
    assert "has nothing new acknowledged in partition 1" in result.what


# A reader that goes where it likes.


def test_a_reader_goes_where_it_likes() -> None:
    some = sound(plan_of(KILL, chaos_s=15.0, seeker=True, spread_ms=300, **BURSTS)).sometimes
    for event in (
        "seeker read",
        "seeker sought",
        "seeker resumed a partition",
        "seeker went to the beginning",
        "seeker went to the end",
        "seeker looked up a time",
        "seeker went on from a saved place",
        "seeker was told of a truncation",
    ):
        assert some[event] > 0, event


SEEKING = plan_of(chaos_s=8.0, seeker=True, spread_ms=300, **BURSTS)


def test_a_seek_that_goes_elsewhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Consumer.seek

    def seek(self: Any, partition: Any, offset: int, leader_epoch: int = -1) -> None:
        real(self, partition, offset + (offset > 5), leader_epoch)

    monkeypatch.setattr(Consumer, "seek", seek)
    result = run_plan(SEEKING)
    assert result.invariant == "seeker"
    assert "must follow" in result.what or "was truncated" in result.what


def test_a_wrong_answer_for_a_time_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Consumer.offsets_for_times

    async def offsets_for_times(self: Any, timestamps: Any) -> Any:
        return await real(self, {tp: time_ms + 100 for tp, time_ms in timestamps.items()})

    monkeypatch.setattr(Consumer, "offsets_for_times", offsets_for_times)
    result = run_plan(SEEKING)
    assert result.invariant == "seeker"
    assert "the first record at or after" in result.what


def test_a_record_with_another_time_than_it_was_sent_with_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Producer.send

    async def send(self: Any, *args: Any, timestamp_ms: int, **how: Any) -> Any:
        return await real(self, *args, timestamp_ms=timestamp_ms + 1, **how)

    monkeypatch.setattr(Producer, "send", send)
    assert run_plan(plan_of(spread_ms=300)).invariant == "I-98"


# Few acks.


def test_acks_of_0_and_1_are_promised_little_and_held_to_that() -> None:
    some = sound(plan_of(KILL, SILENT, loose=True, chaos_s=15.0)).sometimes
    assert some["acknowledged with acks=1"] > 0
    assert some["acknowledged with acks=0"] > 0


def test_a_record_that_is_there_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Loose._send

    async def send(self: Loose, producer: Any, acks: int) -> None:
        await real(self, producer, acks)
        self._values = iter([len(self.sent) - 1, *range(len(self.sent), 10_000)])  # type: ignore[assignment]
        await asyncio.sleep(0)

    monkeypatch.setattr(Loose, "_send", send)
    result = run_plan(plan_of(loose=True))
    assert result.invariant == "loose"


# Producers that are forgotten, and numbers that begin anew.


def test_a_writer_that_was_forgotten_goes_on() -> None:
    result = sound(plan_of(chaos_s=14.0, expiry_ms=2200, lasting=True))
    assert result.sometimes["writer paused until it was forgotten"] > 0
    assert result.sometimes["producer forgotten"] > 0


def test_a_producer_that_is_forgotten_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.expire
    monkeypatch.setattr(ProducerStates, "expire", lambda self, now: real(self, now + 1900))
    result = run_plan(plan_of(chaos_s=14.0, expiry_ms=2200, lasting=True))
    assert result.invariant == "I-60"


@pytest.mark.parametrize("how", [{}, BURSTS])
def test_sequences_start_again(how: dict[str, Any]) -> None:
    result = sound(plan_of(KILL, first_sequence=SEQUENCE_MAX - 3, **how))
    assert result.sometimes["sequence began again"] > 0
    assert ProducerStates.first_sequence == PartitionQueue.first_sequence == 0


def test_a_wrap_to_another_number_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "strandline._core.partition_queue.add_sequence", lambda a, by: (a + by) % SEQUENCE_MAX
    )
    result = run_plan(plan_of(first_sequence=SEQUENCE_MAX - 3, lasting=True))
    assert result.invariant == "I-59"
    assert "all that was sent is acknowledged" in result.what
