"""A throughput begins when the cluster has made its internal topics."""

from pathlib import Path

import pytest

from strandline_bench import target
from strandline_local.local_cluster import LocalCluster


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster.create(tmp_path / "cluster", brokers=1, port=0)


def test_the_wait_ends_once_both_topics_have_their_logs(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answers = iter([False, True, False, True, True])

    def has_its_logs(_cluster: LocalCluster, topic: str) -> bool:
        asked.append(topic)
        return next(answers)

    monkeypatch.setattr(target, "_has_its_logs", has_its_logs)
    monkeypatch.setattr(target, "LOOK_S", 0.0)
    target.until_settled(cluster)
    offsets, transactions = target.INTERNAL_TOPICS
    assert asked == [offsets, offsets, transactions, offsets, transactions]


def test_topics_that_are_never_made_end_the_wait(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_has_its_logs", lambda _cluster, _topic: False)
    monkeypatch.setattr(target, "SETTLED_S", 0.0)
    with pytest.raises(TimeoutError, match="__transaction_state are not made"):
        target.until_settled(cluster)
