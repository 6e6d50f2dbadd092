"""Several data directories of one broker: one identity, one memory, and nothing forgotten."""

import errno
from pathlib import Path

import pytest

from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_broker.storage.log.new_log import NewLog
from strandline_proto.errors import KafkaStorageError
from support.disk import CHANGES, FaultyDisk, Hurried
from support.storage import SMALL, TOPIC_ID

IDS = iter(range(1, 1 << 20))


def new_id() -> bytes:
    return next(IDS).to_bytes(16, "big")


def opened(*paths: Path, fs: FaultyDisk | None = None) -> BrokerDirectories:
    return BrokerDirectories.open(
        fs or Hurried(), [str(p) for p in paths], node_id=1, cluster_id=None, new_id=new_id
    )


def created(
    directories: BrokerDirectories,
    directory: DataDirectory,
    topic: str,
    topic_id: bytes,
    partition: int,
    config: LogConfig,
) -> Log:
    (made,) = directory.make_logs([NewLog(topic, topic_id, partition, config)])
    if not isinstance(made, Log):
        raise made
    directories.keep_logs([(directory, made)])
    return made


def closed(directories: BrokerDirectories, epoch: int = 5) -> None:
    directories.write_clean_shutdown(epoch)
    directories.close()


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return tmp_path / "a"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return tmp_path / "b"


def test_the_broker_keeps_one_identity_whatever_directory_comes_first(a: Path, b: Path) -> None:
    first = opened(a, b)
    identity = first.directory_id
    first.set_cluster_id("c")
    assert first.online[0].directory_id != first.online[1].directory_id
    closed(first)
    for paths in ((b, a), (b,), (a, b)):
        again = opened(*paths)
        assert (again.directory_id, again.cluster_id) == (identity, "c")
        closed(again)


def test_one_directory_goes_on_under_its_own_id_when_another_joins(a: Path, b: Path) -> None:
    alone = DataDirectory.open(Hurried(), str(b), node_id=1, cluster_id="c", new_id=new_id)
    alone.create_log("t", TOPIC_ID, 0, SMALL)
    identity = alone.directory_id
    alone.close()
    both = opened(a, b)
    assert (both.directory_id, both.cluster_id) == (identity, "c")
    assert {d.cluster_id for d in both.online} == {"c"}
    both.close()


def test_only_a_stop_that_closed_every_directory_is_clean(a: Path, b: Path, tmp_path: Path) -> None:
    closed(opened(a, b), 5)
    both = opened(a, b)
    assert both.previous_broker_epoch == 5
    closed(both, 6)
    more = opened(a, b, tmp_path / "new")
    assert more.previous_broker_epoch == 6, "a new directory has nothing to lose"
    closed(more, 7)
    (b / ".kafka_cleanshutdown").unlink()
    torn = opened(a, b)
    assert torn.previous_broker_epoch == -1
    torn.online[0].write_clean_shutdown(8)
    torn.online[1].write_clean_shutdown(9)
    torn.close()
    assert opened(a, b).previous_broker_epoch == -1


def test_a_replica_that_vanished_with_its_directory_is_not_made_anew(a: Path, b: Path) -> None:
    both = opened(a, b)
    created(both, both.online[1], "t", TOPIC_ID, 0, SMALL)
    closed(both)
    rest = opened(a)
    assert rest.hosted == {(TOPIC_ID, 0)}
    with pytest.raises(KafkaStorageError, match="has held t:0 before"):
        created(rest, rest.online[0], "t", TOPIC_ID, 0, SMALL)
    rest.forget_hosted(TOPIC_ID, 0)
    created(rest, rest.online[0], "t", TOPIC_ID, 0, SMALL)
    closed(rest)
    with pytest.raises(DirectoryError, match=r"a/t-0 and .*b/t-0 hold the same replica; move"):
        opened(a, b)


def test_a_replica_that_is_given_up_is_forgotten_everywhere(a: Path, b: Path) -> None:
    both = opened(a, b)
    log = created(both, both.online[1], "t", TOPIC_ID, 0, SMALL)
    both.delete_log(both.online[1], log)
    both.close()
    assert opened(a).hosted == frozenset()


def test_directories_of_two_brokers_or_clusters_are_refused(
    a: Path, b: Path, tmp_path: Path
) -> None:
    opened(a).close()
    opened(b).close()
    with pytest.raises(DirectoryError, match="belong to two brokers"):
        opened(a, b)
    for path, cluster in ((tmp_path / "c", "one"), (tmp_path / "d", "two")):
        DataDirectory.open(
            Hurried(), str(path), node_id=1, cluster_id=cluster, new_id=new_id
        ).close()
    with pytest.raises(DirectoryError, match="different clusters"):
        opened(tmp_path / "c", tmp_path / "d")


def test_a_directory_that_fails_meanwhile_keeps_no_other_from_remembering(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop takes it out while a thread goes through them (P-20)."""
    directories = opened(a, b)
    first, second = directories.online

    def update(**_: object) -> None:
        directories.take_out(first, "EIO")

    monkeypatch.setattr(first, "update_state", update)
    created(directories, second, "t", TOPIC_ID, 0, SMALL)
    assert second.state.hosted == {(TOPIC_ID, 0)}


def test_a_directory_that_cannot_be_used_is_out_and_the_others_go_on(a: Path, b: Path) -> None:
    closed(opened(a, b))
    for path in sorted(b.iterdir()):
        path.unlink()
    b.rmdir()
    b.write_text("not a directory")
    rest = opened(a, b)
    assert [d.path for d in rest.online] == [str(a)]
    assert list(rest.failed) == [str(b)]
    assert rest.previous_broker_epoch == -1, "what b held may be lost"
    rest.close()
    with pytest.raises(DirectoryError, match="cannot be used as a data directory"):
        opened(b)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.EROFS])
def test_a_disk_that_fails_at_the_start_is_out(tmp_path: Path, error: int) -> None:
    (tmp_path / "disk").mkdir()
    disk = FaultyDisk(tmp_path / "disk")
    disk.failing["open"] = error
    with pytest.raises((DirectoryError, OSError)):
        opened(tmp_path / "disk" / "a", fs=disk)


def test_the_newest_memory_counts(a: Path, b: Path) -> None:
    both = opened(a, b)
    both.update_state(cluster_id="c", store_id="s", controller_epoch=1, metadata_offset=5)
    both.take_out(both.online[0], "it failed")
    both.update_state(cluster_id="c", store_id="s", controller_epoch=1, metadata_offset=9)
    both.update_state(flush_policy="always")
    both.close()
    again = opened(b)
    assert (again.state.metadata_offset, again.state.flush_policy) == (9, "always")
    again.close()


class Crashed(BaseException):
    """The machine is gone."""


class Dying(FaultyDisk):
    """Ends at the change of the disk after the next `left` ones."""

    left: int | None = None

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.placed: list[str] = []

    def replace(self, src: str, dst: str) -> None:
        super().replace(src, dst)
        self.placed.append(dst)

    def _fail(self, call: str) -> None:
        super()._fail(call)
        if self.left is not None and call in CHANGES | {"makedirs", "open"}:
            if self.left == 0:
                raise Crashed
            self.left -= 1


NAMES = ("t", "u", "v")


def create_many(directories: BrokerDirectories) -> None:
    directory = directories.online[0]
    wanted = [
        NewLog(name, TOPIC_ID, number, SMALL, 3 if number else None)
        for number, name in enumerate(NAMES)
        if (TOPIC_ID, number) not in directories.hosted
    ]
    made = directory.make_logs(wanted)
    assert directories.hosted.isdisjoint((n.topic_id, n.partition) for n in wanted)
    directories.keep_logs([(directory, log) for log in made if isinstance(log, Log)])


@pytest.mark.parametrize("power", [True, False])
def test_a_creation_of_many_that_a_crash_interrupts_leaves_each_whole_or_none(
    tmp_path: Path, power: bool
) -> None:
    """At whatever change of the disk (P-20, P-23): what is hosted is found, what is not is made."""
    spared, before, after = 0, 0, 0
    while True:
        root = tmp_path / str(spared)
        root.mkdir()
        disk = Dying(root)
        first = opened(root / "data", fs=disk)
        disk.settle()
        disk.left = spared
        try:
            create_many(first)
            break
        except Crashed:
            disk.left = None
        if power:
            disk.crash()
        else:
            disk.kill()
        again = opened(root / "data", fs=disk)
        directory = again.online[0]
        found = {(p.topic_id, p.partition) for p in directory.partitions()}
        assert found == again.hosted, "one that is remembered is there, and whose it is, is known"
        before, after = before + (not found), after + (len(found) == len(NAMES))
        create_many(again)
        assert again.hosted == {(TOPIC_ID, number) for number in range(len(NAMES))}
        again.close()
        last = opened(root / "data", fs=disk)
        for partition in last.online[0].partitions():
            log = last.online[0].load_log(partition, SMALL, lambda _: None)
            assert (log.log_end_offset, log.damaged, log.damaged_ranges.entries) == (0, None, ())
        assert list(root.glob("data/*-stray")) == []
        last.close()
        spared += 1
    assert before > 10
    assert after > 1


def test_the_epoch_of_a_new_leader_is_durable_with_its_log(tmp_path: Path) -> None:
    """Before the role is published (I-46)."""
    (tmp_path / "disk").mkdir()
    disk = FaultyDisk(tmp_path / "disk")
    directories = opened(disk.root / "a", fs=disk)
    disk.settle()
    create_many(directories)
    disk.crash()
    (directory,) = opened(disk.root / "a", fs=disk).online
    epochs = [
        directory.load_log(each, SMALL, lambda _: None).leader_epochs.entries
        for each in directory.partitions()
    ]
    assert epochs == [(), ((3, 0),), ((3, 0),)]


def test_many_replicas_are_noted_with_one_write(a: Path) -> None:
    directories = opened(a)
    before = (a / "strandline-state").read_bytes()
    create_many(directories)
    after = (a / "strandline-state").read_bytes()
    assert after.startswith(before)
    assert after.removeprefix(before).count(b"\n") == 1


def test_one_that_cannot_be_made_does_not_keep_the_others_from_it(a: Path) -> None:
    directories = opened(a)
    (a / "u-1").write_text("in the way")
    create_many(directories)
    assert directories.hosted == {(TOPIC_ID, 0), (TOPIC_ID, 2)}
    directories.close()
