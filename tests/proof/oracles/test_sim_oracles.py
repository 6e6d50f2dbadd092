"""Each oracle objects when its rule is taken out of the servers: a check that never fails proves
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strandline_broker.core.replication.leader import Leader
from strandline_broker.core.replication.remote_replica import RemoteReplica
from strandline_broker.hosts.disks.log_starts import LogStarts
from strandline_broker.hosts.member.envelopes import Envelopes
from strandline_broker.hosts.replica.following import Following
from strandline_broker.hosts.replica.partition import Partition
from strandline_broker.hosts.upkeep import log_retention
from strandline_broker.storage.directory.strandline_state import Memory
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.log import Log
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.topology.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

ROLES = ("heir", "other")
KILL = Fault(1.5, "kill", {"node": "leader-0", "restart_s": 0.3})
PAUSE = Fault(1.0, "pause", {"node": "broker-2", "for_s": 2.5})
LAG = Fault(1.0, "slow-link", {"a": "broker-1", "b": "broker-2", "for_s": 2.5, "ms": 500})


def broken(*faults: Fault, **topology: Any) -> str:
    """The invariant that a run contradicts."""
    settings = {"partitions": 1, **topology}
    return run_plan(Plan(1, Topology(**settings), faults, chaos_s=4.0)).invariant


def test_an_append_below_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "check_can_append_all", lambda self: None)
    kills = [Fault(1.0, "kill", {"node": f"{role}-0", "restart_s": 2.0}) for role in ROLES]
    assert broken(*kills) == "I-20"


def test_a_leader_that_removes_who_is_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "_lags", lambda self, member: True)
    assert broken() == "I-25"


def test_a_leader_that_removes_who_lags_for_a_third_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own function says that it may."""
    real = RemoteReplica.was_caught_up_within

    def hasty(self: RemoteReplica, lag_ms_max: int, *, now_ms: int) -> bool:
        return real(self, lag_ms_max // 3, now_ms=now_ms)

    monkeypatch.setattr(RemoteReplica, "was_caught_up_within", hasty)
    assert broken(LAG) == "I-25"


def test_a_leader_that_calls_one_below_the_minimum_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(self: Leader) -> bool:
        return len(self.isr) < self._eff_min_insync - 1

    monkeypatch.setattr(Leader, "below_min_isr", lenient)
    kills = [Fault(1.0, "kill", {"node": f"{role}-0", "restart_s": 2.0}) for role in ROLES]
    assert broken(*kills) in ("I-9", "I-20")


def test_a_leader_that_waits_for_the_next_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "on_follower_fetch", _without_advance(Leader.on_follower_fetch))
    assert broken() == "I-29"


def _without_advance(real: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(self: Leader, *arguments: Any, **named: Any) -> Any:
        advance, self._advance = self._advance, lambda: []  # type: ignore[method-assign]
        try:
            return real(self, *arguments, **named)
        finally:
            self._advance = advance  # type: ignore[method-assign]

    return fetch


def test_an_epoch_that_is_not_noted_before_it_is_led(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: LeaderEpochs, epochs: list[int], starts: list[int]) -> Iterable[None]:
        self._entries = epochs, starts
        return ()

    monkeypatch.setattr(LeaderEpochs, "_keeping", forget)
    assert broken(KILL) == "I-46"


def test_a_replica_that_serves_before_it_is_noted_as_hosted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forget(self: Memory, change: Any, whole: Any) -> None:
        pass

    monkeypatch.setattr(Memory, "_write", forget)
    assert broken() == "P-20"


def test_a_decision_of_before_that_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(self: Envelopes, partition: Any, state: Any) -> bool:
        return True

    monkeypatch.setattr(Envelopes, "_accept", accept)
    assert broken(PAUSE, KILL) == "I-34"


def test_a_member_that_is_caught_up_by_a_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RemoteReplica.after_fetch

    def lie(self: RemoteReplica, **named: Any) -> RemoteReplica:
        return real(self, **{**named, "fetch_offset": named["leader_end"]})

    monkeypatch.setattr(RemoteReplica, "after_fetch", lie)
    assert broken(LAG) in ("I-9", "I-39")


DELETE = Fault(2.0, "delete-records", {"partition": 0, "back": 3})


def test_a_log_that_begins_where_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Partition.raise_log_start
    monkeypatch.setattr(Partition, "raise_log_start", lambda self, to: real(self, to + 1))
    assert broken(DELETE) == "I-75"


def test_records_that_come_back_with_the_next_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "low_watermark", lambda self: self.log_start_offset)
    monkeypatch.setattr(Following, "on_log_start", lambda self, to, on_durable: None)
    assert broken(DELETE, replace(KILL, at_s=3.0)) == "I-75"


def test_a_log_start_that_is_told_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(self: LogStarts, log_dir: Any, starts: Any, taken: Any) -> None:
        return None

    monkeypatch.setattr(LogStarts, "_save", forget)
    kill = Fault(2.2, "kill", {"node": "heir-0", "restart_s": 0.3})
    assert broken(DELETE, kill, segment_bytes=1 << 20) in ("I-75", "I-5")


def test_epochs_that_go_with_deleted_records(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LeaderEpochs.truncate_from_start

    def forget(self: LeaderEpochs, offset: int) -> None:
        real(self, offset)
        epochs, starts = self._entries
        self._keep(epochs[1:], starts[1:])

    monkeypatch.setattr(LeaderEpochs, "truncate_from_start", forget)
    assert broken(DELETE) in ("I-76", "I-5")


RETAIN = Fault(2.0, "retention", {"bytes": 4000, "for_s": 2.0})


def all_sealed(segments: list[Any], limits: Any, **named: Any) -> int:
    return len([s for s in segments[:-1] if s.end_offset <= named["last_stable_offset"]])


def test_retention_that_takes_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def when_limited(segments: list[Any], limits: Any, **named: Any) -> int:
        return all_sealed(segments, limits, **named) if limits.retention_bytes > 0 else 0

    monkeypatch.setattr(log_retention, "expired", when_limited)
    assert broken(RETAIN, segment_bytes=400, retention_check_ms=300) == "I-74"


def test_retention_that_takes_too_much_after_all_was_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_retention, "expired", all_sealed)
    deleted = replace(DELETE, at_s=1.0, arguments={"partition": 0, "back": 0})
    settings = {"segment_bytes": 400, "retention_check_ms": 2000}
    assert broken(deleted, **settings) == "I-75"


def test_retention_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_retention, "expired", all_sealed)
    assert broken(segment_bytes=400, retention_check_ms=300) == "I-75"


def test_a_log_start_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Log.raise_log_start

    def fall(self: Log, offset: int) -> bool:
        if self.log_start_offset > 0:
            self.state.raise_start(self.log_start_offset - 1)
        return real(self, offset)

    monkeypatch.setattr(Log, "raise_log_start", fall)
    again = replace(DELETE, at_s=3.0, arguments={"partition": 0, "back": 40})
    assert broken(DELETE, again) == "I-74"
