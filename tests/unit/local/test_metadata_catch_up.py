"""A controller that was started is watched until the running brokers have caught up with it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_local import metadata_catch_up, probe
from strandline_local.errors import ClusterError
from strandline_local.local_cluster import LocalCluster
from strandline_local.processes import start_identity
from strandline_proto.v1.metadata_pb2 import MetadataResponse


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    """All of its processes seem to run: their pid files name this one."""
    made = LocalCluster.create(tmp_path, brokers=2, port=0)
    (tmp_path / "run").mkdir()
    for process_id in made.process_ids:
        pid = os.getpid()
        made.process(process_id).pid_file.write_text(f"{pid}\n{start_identity(pid)}\n")
    return made


def answering(
    monkeypatch: pytest.MonkeyPatch, offset: Callable[[str], int | None]
) -> Callable[[str, float], MetadataResponse]:
    """Brokers that have applied what `offset` says of their address; None: they are silent."""

    def ask(address: str, timeout_s: float) -> MetadataResponse:
        applied = offset(address)
        if applied is None:
            raise probe.NoAnswer(f"{address} does not answer")
        return MetadataResponse(metadata_offset=applied)

    monkeypatch.setattr(probe, "ask_metadata", ask)
    return ask


def test_it_is_over_as_soon_as_every_broker_has_applied_something_new(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {cluster.address(b): 0 for b in cluster.broker_ids}

    def offset(address: str) -> int:
        asked[address] += 1
        return 7 + (asked[address] > 3)

    answering(monkeypatch, offset)
    metadata_catch_up.wait_beyond(cluster, {1: 7, 2: 7}, wait_s=60.0)
    assert list(asked.values()) == [4, 4]


def test_a_controller_that_ends_meanwhile_is_told_with_its_last_words(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = cluster.process("controller").log_file
    log.parent.mkdir()
    log.write_text("this controller must not run\n")

    def offset(address: str) -> int:
        cluster.process("controller").pid_file.write_text("1\nanother process\n")
        return 7

    answering(monkeypatch, offset)
    with pytest.raises(ClusterError, match=r"the controller has ended(.|\n)*must not run"):
        metadata_catch_up.wait_beyond(cluster, {1: 7, 2: 7}, wait_s=60.0)


def test_brokers_that_hear_of_nothing_new_are_not_waited_for_for_long(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, lambda address: 7)
    metadata_catch_up.wait_beyond(cluster, {1: 7}, wait_s=0.05)


def test_only_brokers_that_run_and_answer_are_to_be_met(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, lambda address: 7 if address == cluster.address(2) else None)
    assert metadata_catch_up.applied_offsets(cluster) == {2: 7}
    cluster.process(2).forget()
    assert metadata_catch_up.applied_offsets(cluster) == {}
