"""A data directory: whose it is, what it remembers, and what becomes of its partitions."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.directory.strandline_state import BrokerState
from strandline_broker.storage.log.log import Log
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import topic_id_text
from strandline_runtime.real import RealFileSystem
from support.disk import FaultyDisk
from support.storage import SMALL, TOPIC_ID, Store, damaged

OTHER_ID = bytes(range(16, 32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def opened(path: Path, *, node_id: int = 1, cluster_id: str | None = None) -> DataDirectory:
    ids = iter(range(1, 1000))
    return DataDirectory.open(
        RealFileSystem(),
        str(path),
        node_id=node_id,
        cluster_id=cluster_id,
        new_id=lambda: next(ids).to_bytes(16, "big"),
    )


def test_a_new_directory_gets_an_identity_that_stays(path: Path) -> None:
    first = opened(path)
    assert first.directory_id == topic_id_text(bytes(15) + b"\x01")
    assert (first.cluster_id, first.store_id, first.clean) == (None, None, False)
    first.set_cluster_id("cluster-a")
    store_id = first.ensure_store_id()
    first.close()
    again = opened(path, cluster_id="cluster-a")
    assert (again.directory_id, again.node_id) == (first.directory_id, 1)
    assert (again.cluster_id, again.ensure_store_id()) == ("cluster-a", store_id)
    assert (path / "meta.properties").read_text().startswith("node.id=1\ndirectory.id=")


def test_a_directory_is_used_by_one_process(path: Path) -> None:
    first = opened(path)
    with pytest.raises(DirectoryError, match=r"locked by another running process; stop"):
        opened(path)
    first.close()
    opened(path).close()


def test_another_nodes_or_clusters_directory_is_refused_untouched(path: Path) -> None:
    first = opened(path, cluster_id="a")
    first.write_clean_shutdown(4)
    first.close()
    with pytest.raises(
        DirectoryError, match=r"belongs to node 1, this is node 2; correct node\.id"
    ):
        opened(path, node_id=2)
    with pytest.raises(DirectoryError, match="belongs to cluster a, not to b"):
        opened(path, cluster_id="b")
    again = opened(path)
    assert again.previous_broker_epoch == 4
    with pytest.raises(DirectoryError, match="cluster a"):
        again.set_cluster_id("b")


@pytest.mark.parametrize("content", ["", "version=1\n", "node.id=x\nversion=1\ndirectory.id=a\n"])
def test_an_identity_that_does_not_read_is_refused(path: Path, content: str) -> None:
    opened(path).close()
    (path / "meta.properties").write_text(content)
    with pytest.raises(DirectoryError, match="put it back from a copy"):
        opened(path)


def test_an_identity_of_which_a_bit_has_changed_is_refused(path: Path) -> None:
    """Another digit of an id is another cluster's, store's or broker's (I-8)."""
    first = opened(path, cluster_id="cluster-a")
    first.ensure_store_id()
    first.close()
    meta = path / "meta.properties"
    was = meta.read_bytes()
    for at in range(len(was)):
        meta.write_bytes(was[:at] + bytes((was[at] ^ 1 << at % 8,)) + was[at + 1 :])
        with pytest.raises(DirectoryError, match=r"none of those in its seal.*from a copy"):
            opened(path)
    meta.write_bytes(was)
    opened(path)


@pytest.mark.parametrize("seal", [None, b"seal 1 0\n"])
def test_an_identity_without_a_seal_that_reads_is_believed_and_gets_one(
    path: Path, seal: bytes | None
) -> None:
    opened(path, cluster_id="cluster-a").close()
    there = path / "meta.properties.seal"
    was = there.read_bytes()
    there.unlink()
    if seal is not None:
        there.write_bytes(seal)
    opened(path).close()
    assert there.read_bytes() == was


@pytest.mark.parametrize(("call", "spared"), [("fsync", 1), ("replace", 0), ("replace", 1)])
def test_an_identity_whose_writing_broke_off_is_the_old_one(
    tmp_path: Path, call: str, spared: int
) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    first = DataDirectory.open(
        disk, str(disk.root), node_id=1, cluster_id=None, new_id=lambda: bytes(range(16))
    )
    disk.failing = dict.fromkeys((call, "fdatasync" if call == "fsync" else call), errno.EIO)
    disk.spared = dict.fromkeys(disk.failing, spared)
    with pytest.raises(OSError, match="Input/output"):
        first.set_cluster_id("cluster-a")
    disk.kill()
    again = opened(disk.root)
    assert (again.directory_id, again.cluster_id) == (first.directory_id, None)


def test_a_path_that_is_a_file_is_refused(path: Path) -> None:
    path.write_text("")
    with pytest.raises(
        DirectoryError, match=r"cannot be used as a data directory.*check log\.dirs"
    ):
        opened(path)


def test_the_clean_marker_counts_once(path: Path) -> None:
    first = opened(path)
    first.write_clean_shutdown(42)
    first.close()
    assert json.loads((path / ".kafka_cleanshutdown").read_text()) == {
        "version": 0,
        "brokerEpoch": 42,
    }
    second = opened(path)
    assert (second.clean, second.previous_broker_epoch) == (True, 42)
    second.close()
    third = opened(path)
    assert (third.clean, third.previous_broker_epoch) == (False, -1)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]", b'{"version":1,"brokerEpoch":3}', b'{"version":0,"brokerEpoch":"3"}'],
)
def test_a_marker_that_does_not_read_proves_nothing(path: Path, content: bytes) -> None:
    opened(path).close()
    (path / ".kafka_cleanshutdown").write_bytes(content)
    found = opened(path)
    assert (found.clean, found.previous_broker_epoch) == (False, -1)
    assert "unclean" in found.findings[0]
    assert not (path / ".kafka_cleanshutdown").exists()


def test_a_marker_without_the_old_identity_proves_nothing(path: Path) -> None:
    first = opened(path)
    first.write_clean_shutdown(42)
    first.close()
    (path / "meta.properties").unlink()
    assert opened(path).previous_broker_epoch == -1


def test_the_state_is_kept_and_a_damaged_one_counts_as_unclean(path: Path) -> None:
    first = opened(path)
    first.update_state(
        cluster_id="c", controller_epoch=3, metadata_offset=99, flush_policy="always"
    )
    first.update_state(store_id="s")
    expected = BrokerState("c", "s", 3, 99, "always", hosted=frozenset())
    first.write_clean_shutdown(1)
    first.close()
    second = opened(path)
    assert second.state == expected
    assert second.clean
    second.write_clean_shutdown(1)
    second.close()
    data = (path / "strandline-state").read_bytes()
    for at in range(len(data)):
        (path / "strandline-state").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        found = opened(path)
        assert found.state == BrokerState()
        assert not found.clean
        assert "strandline-state does not read" in found.findings[0]
        found.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"cluster_id": 1},
        {"store_id": ["s"]},
        {"controller_epoch": "3"},
        {"metadata_offset": 9.5},
        {"metadata_offset": True},
        {"flush_policy": None},
        {"identity": None},
        {"hosted": [["AAECAwQFBgcICQoLDA0ODw", "0"]]},
        {"hosted": [[5, 0]]},
        {"hosted": "x"},
        {"more": 1},
    ],
)
def test_a_state_with_a_field_of_another_kind_counts_as_damaged(
    path: Path, changed: dict[str, object]
) -> None:
    """A checksum says that this was written, not that we wrote it."""
    opened(path).close()
    first = opened(path)
    first.update_state(cluster_id="c", store_id="s", controller_epoch=3)
    first.write_clean_shutdown(1)
    first.close()
    file = path / "strandline-state"
    body = json.loads(file.read_bytes().partition(b"\n")[2]) | changed
    text = json.dumps(body).encode()
    file.write_bytes(b"strandline-state 1 %08x\n%b" % (crc32c(text), text))
    found = opened(path)
    assert (found.state, found.clean) == (BrokerState(), False)
    assert "strandline-state does not read" in found.findings[0]


def test_a_replica_that_vanished_is_not_taken_for_a_new_one(path: Path) -> None:
    store = Store(path)
    store.append(b"x")
    store.kill()
    for child in store.log_dir.iterdir():
        child.unlink()
    store.log_dir.rmdir()
    directory = opened(path)
    with pytest.raises(KafkaStorageError, match=r"is gone.*t:0 before.*does not start over empty"):
        directory.create_log("t", TOPIC_ID, 0, SMALL)
    directory.create_log("t", OTHER_ID, 1, SMALL)
    directory.forget_hosted(TOPIC_ID, 0)
    assert directory.create_log("t", TOPIC_ID, 0, SMALL).log_end_offset == 0


def test_a_directory_that_was_taken_away_is_not_made_again(path: Path) -> None:
    """An empty directory in its place would hide that its logs are lost."""
    directory = opened(path)
    path.rename(path.with_name("away"))
    with pytest.raises(FileNotFoundError, match="the data directory is gone"):
        directory.create_log("t", TOPIC_ID, 0, SMALL)
    assert not path.exists()


def test_whoever_goes_through_the_logs_is_not_disturbed_by_one_that_comes(path: Path) -> None:
    """A disk is found to be full while another thread makes the logs of a new topic (I-99)."""
    directory = opened(path)
    directory.create_log("t", TOPIC_ID, 0, SMALL)
    logs = directory.logs()
    directory.create_log("t", OTHER_ID, 1, SMALL)
    assert [log.partition for log in logs] == [0]
    assert len(directory.logs()) == 2


def test_what_lies_in_a_directory_is_hosted_whatever_the_state_says(path: Path) -> None:
    store = Store(path)
    store.kill()
    (path / "strandline-state").unlink()
    assert opened(path).state.hosted == {(TOPIC_ID, 0)}


def test_a_creation_that_a_crash_interrupted_is_done_again(path: Path) -> None:
    directory = opened(path)
    (path / "t-0").mkdir()
    (path / "t-0/partition.metadata.0.tmp").write_text("half")
    assert directory.partitions() == []
    assert directory.findings == [f"{path}/t-0 has no partition.metadata and is ignored."]
    assert directory.create_log("t", TOPIC_ID, 0, SMALL).log_end_offset == 0
    assert [p.topic_id for p in directory.partitions()] == [TOPIC_ID]


@pytest.mark.parametrize("next_id", [OTHER_ID, OTHER_ID[::-1]], ids=["same topic", "its successor"])
def test_a_creation_that_a_full_disk_broke_off_is_done_again(
    tmp_path: Path, next_id: bytes
) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = Store(disk.root, fs=disk)
    calls = 0
    while True:
        disk.failing["pwritev"], disk.spared["pwritev"] = errno.ENOSPC, calls
        try:
            store.directory.create_log(f"u{calls}", OTHER_ID, 0, SMALL)
            break
        except OSError:
            del disk.failing["pwritev"]
        is_anothers = (
            next_id != OTHER_ID and (disk.root / f"u{calls}-0/partition.metadata").exists()
        )
        log = store.directory.create_log(f"u{calls}", next_id, 0, SMALL)
        assert (log.topic_id, log.log_end_offset) == (next_id, 0)
        assert any(disk.root.glob(f"u{calls}-0.*-stray")) is is_anothers
        store.directory.delete_log(log)
        calls += 1
    assert calls > 1


def test_a_creation_that_broke_off_where_another_log_was_leaves_no_damage(tmp_path: Path) -> None:
    """The shared checkpoints still promise the records of the log before it (I-7)."""
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    calls, begun = 0, 0
    while True:
        store = Store(disk.root, fs=disk)
        store.append(b"old")
        store.flush()
        store.checkpoint()
        store.directory.delete_log(store.log)
        disk.failing["fdatasync"], disk.spared["fdatasync"] = errno.EIO, calls
        try:
            store.directory.create_log("t", TOPIC_ID, 0, SMALL)
            break
        except OSError:
            del disk.failing["fdatasync"]
        store.kill()
        if (store.log_dir / "partition.metadata").exists():
            begun += 1
            assert store.start().log_end_offset == 0
            assert (damaged(store.log), store.reports) == ([], [])
            store.kill()
        shutil.rmtree(disk.root)
        disk.root.mkdir()
        calls += 1
    assert (calls, begun) == (4, 1)


def test_segments_without_a_topic_are_set_aside(path: Path) -> None:
    directory = opened(path)
    (path / "t-0").mkdir()
    (path / f"t-0/{0:020d}.log").write_bytes(b"somebody's")
    directory.create_log("t", TOPIC_ID, 0, SMALL)
    (stray,) = path.glob("t-0.*-stray")
    assert (stray / f"{0:020d}.log").read_bytes() == b"somebody's"


def test_a_log_is_not_created_over_another(path: Path) -> None:
    store = Store(path)
    for topic_id, whose in ((TOPIC_ID, "this topic"), (OTHER_ID, topic_id_text(TOPIC_ID))):
        with pytest.raises(KafkaStorageError, match=f"belongs to .*{whose}"):
            store.create(topic_id)


def test_a_log_that_could_not_be_removed_is_not_set_aside_for_another(tmp_path: Path) -> None:
    """It is removed later, under the name that it has."""
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = Store(disk.root, fs=disk)
    disk.failing["replace"] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        store.directory.delete_log(store.log)
    disk.failing.clear()
    with pytest.raises(KafkaStorageError, match="belongs to topic id"):
        store.create(OTHER_ID)
    store.directory.delete_log(store.log)
    store.create(OTHER_ID)


@pytest.mark.parametrize("gives_up", [DataDirectory.delete_log, DataDirectory.mark_stray])
def test_a_log_whose_new_name_could_not_be_made_durable_is_given_up_when_it_can(
    tmp_path: Path, gives_up: Callable[[DataDirectory, Log], None]
) -> None:
    """A process without descriptors renames, and cannot sync; the name is free later (P-51)."""
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = Store(disk.root, fs=disk)
    disk.failing["fsync_dir"] = errno.EMFILE
    with pytest.raises(OSError, match="Too many open files"):
        gives_up(store.directory, store.log)
    disk.failing.clear()
    why = None
    try:
        gives_up(store.directory, store.log)
    except OSError as error:
        why = error
    assert why is None
    disk.crash()
    assert store.directory.partitions() == []
    assert len(list(disk.root.glob("t-0.*"))) == 1


def test_a_deleted_log_frees_its_name_at_once_and_goes_later(path: Path) -> None:
    store = Store(path)
    store.append(b"old")
    old = store.log
    store.directory.delete_log(old)
    assert store.directory.state.hosted == frozenset()
    with pytest.raises(KafkaStorageError, match="was removed"):
        old.read(0, max_bytes=1, limit=1)
    store.log = store.create(OTHER_ID)
    store.append(b"new")
    assert len(list(path.glob("t-0.*-delete"))) == 1
    store.directory.purge_deleted()
    assert list(path.glob("t-0.*-delete")) == []
    assert store.values() == [b"new"]
    store.restart()
    assert (store.log.topic_id, store.values()) == (OTHER_ID, [b"new"])


def test_a_flush_of_a_log_that_was_deleted_meanwhile_is_no_failure(path: Path) -> None:
    store = Store(path)
    for _ in range(40):
        store.append(b"x" * 100)
    ticket = store.log.flush_snapshot()
    store.directory.delete_log(store.log)
    store.directory.purge_deleted()
    ticket.run()
    store.log.flushed(ticket)


def test_a_topic_of_the_same_name_is_not_judged_by_the_old_ones_checkpoints(path: Path) -> None:
    store = Store(path)
    for _ in range(30):
        store.append(b"old")
    store.flush()
    store.checkpoint(30)
    (path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    store.restart()
    store.directory.delete_log(store.log)
    store.log = store.create(OTHER_ID)
    store.append(b"new")
    store.restart()
    assert (store.log.log_start_offset, store.values(), store.reports) == (0, [b"new"], [])
    assert store.log.checkpointed_high_watermark == 0


def test_strays_are_kept_and_never_used_again(path: Path) -> None:
    store = Store(path)
    store.append(b"x")
    (found,) = store.directory.partitions()
    store.directory.mark_stray(store.log)
    assert store.directory.partitions() == []
    store.directory.purge_deleted()
    (stray,) = path.glob("t-0.*-stray")
    assert (stray / "partition.metadata").exists()
    assert found.path == str(path / "t-0")
    assert store.directory.findings == []


def test_the_name_of_a_given_up_log_fits_a_file_name(path: Path) -> None:
    directory = opened(path)
    topic = "t" * 249
    log = directory.create_log(topic, TOPIC_ID, 0, SMALL)
    directory.delete_log(log)
    (name,) = [p.name for p in path.iterdir() if p.name.endswith("-delete")]
    assert len(name) == 255
    directory.purge_deleted()


def test_checkpoints_keep_the_entries_of_replicas_that_are_not_loaded(path: Path) -> None:
    store = Store(path)
    store.append(b"x")
    store.flush()
    store.checkpoint(1)
    store.kill()
    directory = opened(path)
    other = directory.create_log("u", OTHER_ID, 3, SMALL)
    directory.write_recovery_points({("u", 3): other.durable_offset, ("gone", 1): 5})
    lines = (path / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert lines == ["0", "2", "t 0 1", "u 3 0"]


@pytest.mark.parametrize("content", [b"", b"1\n0\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0 x\n", b"\xff"])
def test_a_checkpoint_that_does_not_read_is_absent(path: Path, content: bytes) -> None:
    store = Store(path)
    store.append(b"a")
    store.stop()
    (path / "recovery-point-offset-checkpoint").write_bytes(content)
    (path / "recovery-point-offset-checkpoint.seal").unlink()
    store.start()
    assert store.values() == [b"a"]
    assert not store.directory.clean
    assert store.directory.previous_broker_epoch == -1
    wrong, unclean = store.directory.findings
    assert "recovery-point-offset-checkpoint does not read" in wrong
    assert "the last shutdown counts as unclean" in unclean


def test_foreign_files_are_named_once(path: Path) -> None:
    directory = opened(path)
    (path / "lost+found").mkdir()
    (path / "u-0").write_text("")
    assert directory.partitions() == directory.partitions() == []
    assert len(directory.findings) == 2
