"""What `strandline health` says of partitions without a leader: whom they wait for."""

from typing import Any

import pytest

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.rpc.cluster.replica_conditions import condition_to_wire
from strandline_cli.commands.health import (
    Expected,
    HealthReport,
    _refusals,
    health_text,
    judge_cluster,
)
from strandline_cli.shown.conditions import condition_text, condition_texts
from strandline_cli.shown.partition_faults import partition_faults
from strandline_local import probe
from strandline_local.probe import BrokerState
from strandline_proto.conditions import condition_name
from strandline_proto.v1.metadata_pb2 import DescribeClusterResponse, MetadataResponse
from strandline_proto.v1.truncations_pb2 import RefusedTruncation


@pytest.mark.parametrize(
    ("elr", "last_known", "says"),
    [
        ([2], [1], "start broker 2, which holds all that was acknowledged"),
        ([], [1, 2], "waits for broker 1 and 2, in sync last, alive and on the same disk"),
        ([], [], "no replica is known to be in sync"),
    ],
)
def test_a_partition_without_a_leader_names_whom_it_waits_for(
    elr: list[int], last_known: list[int], says: str
) -> None:
    metadata = MetadataResponse()
    topic = metadata.topics.add(name="orders")
    topic.partitions.add(index=3, leader=-1, replicas=[1, 2, 3], elr=elr, last_known_elr=last_known)
    (problem,) = (fault.text for fault in partition_faults(metadata))
    assert problem.startswith("orders:3 has no leader (")
    assert says in problem
    assert elr or "`strandline leader elect --unclean orders:3`" in problem


@pytest.mark.parametrize("condition", list(ReplicaCondition))
def test_a_replica_that_does_not_count_is_named_with_the_reason(
    condition: ReplicaCondition,
) -> None:
    metadata = MetadataResponse()
    partition = metadata.topics.add(name="orders").partitions.add(index=3, leader=1)
    partition.replicas.extend([1, 2])
    partition.offline_replicas.append(2)
    partition.offline_conditions.append(condition_to_wire(condition))
    assert condition_name(condition_to_wire(condition)) == condition.value
    partition.isr.append(1)
    (problem,) = (fault.text for fault in partition_faults(metadata))
    assert problem.startswith("orders:3 lacks broker 2 in its ISR; the replica on broker 2 ")
    assert condition_text(condition.value) in problem
    assert "does not count (" not in problem, "it has words of its own"
    partition.isr.append(2)
    (problem,) = (fault.text for fault in partition_faults(metadata))
    assert problem.startswith(f"orders:3: the replica on broker 2 {condition_text(condition)}, and")


def test_a_condition_of_a_newer_broker_is_named_all_the_same() -> None:
    assert condition_name(99) == "unknown"
    assert condition_text("unknown") == "does not count (unknown)"
    assert condition_texts([1, 2], ["fenced", "disk-full"]) == [
        "the replica on broker 2 takes no more records: its disk is full, or its broker can open no"
        " more files"
    ]


def test_a_replica_that_has_refused_a_cut_is_named_with_the_command_that_lets_it_go_on() -> None:
    metadata = MetadataResponse()
    metadata.topics.add(name="orders", topic_id=b"t" * 16)
    refused = RefusedTruncation(
        topic_id=b"t" * 16,
        partition_index=3,
        leader_id=1,
        leader_epoch=7,
        offset=812,
        high_watermark=1002,
        log_end_offset=1020,
    )
    state = BrokerState(2, 1, "a:1", "UNFENCED", refused_truncations=(refused,))
    (problem,) = (fault.text for fault in _refusals([state], metadata))
    assert problem.startswith("orders:3 on broker 2 has refused to cut offsets 812 to 1019")
    assert "below 1002 to be acknowledged: leader 1 of epoch 7" in problem
    assert "`strandline replica truncate orders:3 --broker 2 --to 812`" in problem


class Answers:
    """A cluster of two addresses whose questions fail as the script says, then succeed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: probe.NoAnswer) -> None:
        self.asked: list[str] = []
        self.metadata_asked: list[str] = []
        self.metadata = MetadataResponse()
        for name in ("__consumer_offsets", "__transaction_state"):
            self.metadata.topics.add(name=name)
        self.silent: set[str] = set()
        self._failures = list(failures)
        monkeypatch.setattr(probe, "ask_cluster", self._ask_cluster)
        monkeypatch.setattr(probe, "ask_metadata", self._ask_metadata)

    def _ask_metadata(
        self, address: str, timeout_s: float, *, topics: bool = False
    ) -> MetadataResponse:
        assert timeout_s > 0
        self.metadata_asked.append(address)
        if address in self.silent:
            raise probe.NoAnswer(f"{address} does not answer: connection refused", is_plain=True)
        return self.metadata

    def _ask_cluster(self, address: str, timeout_s: float) -> Any:
        assert 0 < timeout_s <= 3
        self.asked.append(address)
        if self._failures:
            raise self._failures.pop(0)
        answer = DescribeClusterResponse()
        broker = answer.brokers.add(id=1, state="UNFENCED")
        broker.listeners.add(listener="PLAINTEXT", host="a", port=1)
        return answer


def test_who_did_not_answer_is_asked_again_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    late = [probe.NoAnswer("no answer in time")] * 3
    answers = Answers(monkeypatch, *late)
    assert judge_cluster(["a:1", "b:2"]).healthy
    assert answers.asked == ["a:1", "b:2", "a:1", "b:2"]


def test_where_nobody_listens_nothing_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = probe.NoAnswer("connection refused", is_plain=True)
    answers = Answers(monkeypatch, *[refused] * 9)
    assert judge_cluster(["a:1", "b:2"]).problems == ("connection refused",) * 2
    assert answers.asked == ["a:1", "b:2"]


def test_the_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, *[probe.NoAnswer("no answer in time")] * 9)
    assert judge_cluster(["a:1"], 0.0).problems == ("no answer in time",)


def test_a_broker_that_has_never_registered_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ids of the local cluster, by the number that was given, or by its address."""
    answers = Answers(monkeypatch)
    (problem,) = judge_cluster(["a:1"], 5.0, Expected(ids=(1, 2))).problems
    assert problem.startswith("broker 2 has never registered: start it (`strandline start 2`)")
    assert judge_cluster(["a:1"], 5.0, Expected(ids=(1,))).healthy
    assert judge_cluster(["a:1"], 5.0, Expected(3)).problems == (
        "1 of 3 brokers are registered (1)",
    )
    assert judge_cluster(["a:1"], 5.0, Expected(1)).healthy
    answers.silent = {"b:2"}
    assert judge_cluster(["a:1", "b:2"], 5.0).problems == (
        "no registered broker has the address b:2, and b:2 does not answer: connection refused",
    )
    answers.silent = set()
    assert judge_cluster(["a:1", "alias:1"], 5.0).healthy, "another name of a broker that answers"


def test_a_cluster_in_which_no_group_and_no_transaction_can_begin_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too few brokers have ever registered; a topic that is being made is waited for."""
    answers = Answers(monkeypatch)
    del answers.metadata.topics[:]
    groups, transactions = judge_cluster(["a:1"], 0.1).problems
    assert groups.startswith("no group can begin: __consumer_offsets is made once")
    assert transactions.startswith("no transaction can begin: __transaction_state is made once")
    assert "(transaction.state.log.replication.factor of the controller)" in transactions
    answers.metadata.topics.add(name="__consumer_offsets")
    assert judge_cluster(["a:1"], 0.1).problems == (transactions,)

    def make(_: float) -> None:
        answers.metadata.topics.add(name="__transaction_state")

    monkeypatch.setattr("strandline_cli.commands.health.time.sleep", make)
    assert judge_cluster(["a:1"], 60.0).healthy


def _three_brokers(*isrs: list[int]) -> MetadataResponse:
    """Partitions of `orders` and `clicks` in turn, on three brokers, with these ISRs."""
    metadata = MetadataResponse()
    topics = [metadata.topics.add(name=name) for name in ("orders", "clicks")]
    for number, isr in enumerate(isrs):
        partitions = topics[number % 2].partitions
        partitions.add(index=number // 2, leader=isr[0] if isr else -1, replicas=[1, 2, 3], isr=isr)
    return metadata


def test_partitions_with_one_fault_share_a_sentence_and_verbose_lists_them() -> None:
    metadata = _three_brokers(*[[1, 3]] * 53)
    report = HealthReport((), (), tuple(partition_faults(metadata)))
    shared = "53 partitions lack broker 2 (orders:0-26 clicks:0-25)"
    assert report.summary == (shared,)
    assert (len(report.problems), report.problems[0]) == (53, "orders:0 lacks broker 2 in its ISR")
    short = f"not healthy: {shared}"
    assert health_text(report, verbose=False) == f"{short} (--verbose lists each partition)"
    lines = health_text(report, verbose=True).splitlines()
    assert (lines[0], lines[1:]) == (short, [f"  {problem}" for problem in report.problems])


def test_different_faults_have_sentences_of_their_own() -> None:
    metadata = _three_brokers([1, 3], [1], [1, 3], [], [1, 2, 3], [])
    for topic in metadata.topics:
        for partition in topic.partitions:
            if partition.leader < 0:
                partition.elr.append(2)
    report = HealthReport((), (), tuple(partition_faults(metadata)))
    assert report.summary == (
        "2 partitions lack broker 2 (orders:0-1)",
        "clicks:0 lacks broker 2, 3 in its ISR",
        "2 partitions have no leader (clicks:1-2) (start broker 2, which holds all that was"
        " acknowledged)",
    )


def test_one_partition_has_its_own_sentence_and_no_hint_of_a_list() -> None:
    report = HealthReport((), (), tuple(partition_faults(_three_brokers([1, 3]))))
    said = "not healthy: orders:0 lacks broker 2 in its ISR"
    assert health_text(report, verbose=False) == said


def test_verbose_adds_nothing_to_a_healthy_cluster() -> None:
    assert health_text(HealthReport(()), verbose=True) == "healthy"


def test_the_command_that_elects_stays_in_the_sentence_about_several() -> None:
    metadata = _three_brokers([], [], [])
    (shared,) = HealthReport((), (), tuple(partition_faults(metadata))).summary
    assert shared.startswith(
        "3 partitions have no leader (orders:0-1 clicks:0) (no replica is known"
    )
    assert "`strandline leader elect --unclean TOPIC:P`" in shared
