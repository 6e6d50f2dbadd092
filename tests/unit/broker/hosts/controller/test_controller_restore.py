"""`controller restore` on directories: what is read and written, and what a crash leaves."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.core.controller.log.restoration import PRODUCER_ID_STEP, CannotRestore
from strandline_broker.hosts.controller.restore import Restoration, RestoreRequest
from strandline_broker.storage.controller.metadata_log import DIRECTORY
from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.directory.meta_properties import read_meta_properties
from strandline_broker.storage.directory.strandline_state import read_state
from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.producer_snapshot import serialize
from strandline_proto.batch import read_header
from strandline_proto.ids import CHOSEN_PRODUCER_IDS, MetadataOffset, TopicId
from strandline_runtime.real import real_runtime
from support.controller_store import StoreRun, some_decisions
from support.disk import FaultyDisk, Hurried
from support.producer_log import idempotent_batch

FS = Hurried()
T = TopicId(b"t" * 16)


def broker(root: Path, node_id: int, *, offset: int) -> str:
    """A stopped broker with one replica of a topic that it leads."""
    path = str(root / f"broker-{node_id}")
    directory = DataDirectory.open(
        FS, path, node_id=node_id, cluster_id="c", new_id=lambda: bytes([node_id]) * 16
    )
    log = directory.create_log("t", T, 0, LogConfig())
    batch = idempotent_batch(4000 + node_id, 0, b"v")
    log.append_as_leader(batch, read_header(batch), leader_epoch=6)
    log.close()
    directory.update_state(
        store_id="lost", controller_epoch=3, metadata_offset=offset, cluster_id="c"
    )
    directory.close()
    return path


@pytest.fixture
def request_(tmp_path: Path) -> RestoreRequest:
    (tmp_path / "controller").mkdir()
    return RestoreRequest(
        controller_dir=str(tmp_path / "controller"),
        broker_dirs=(broker(tmp_path, 1, offset=700), broker(tmp_path, 2, offset=800)),
        node_id=100,
        discard_store=False,
        recreate_missing=False,
    )


def restore(request: RestoreRequest) -> Restoration:
    runtime = replace(real_runtime("test"), fs=FS)
    with Restoration(runtime, request) as restoration:
        restoration.carry_out()
    return restoration


def begun(request: RestoreRequest) -> StoreRun:
    store = StoreRun(FS, request.controller_dir)
    store.directory.close()
    return store


def test_an_empty_directory_becomes_a_store_that_knows_what_the_brokers_hold(
    request_: RestoreRequest,
) -> None:
    restoration = restore(request_)
    store = begun(request_)
    assert store.reports == []
    assert store.state == restoration.state
    partition = store.state.topics[T].partitions[0]
    assert partition.last_known_elr == (1, 2)
    assert partition.leader_epoch > 6
    assert store.state.next_producer_id > 4002
    assert store.state.last_offset > 800
    meta = read_meta_properties(FS, request_.controller_dir)
    assert meta is not None
    assert (meta.node_id, meta.cluster_id) == (100, "c")
    for path in request_.broker_dirs:
        told = read_state(FS, path)
        assert told is not None
        assert told.store_id == meta.store_id != "lost"
        assert store.state.epoch_at(MetadataOffset(told.metadata_offset)) == told.controller_epoch
        assert told.hosted == {(T, 0)}
    store = StoreRun(FS, request_.controller_dir)
    store.append([b'{"type":"Config","key":"k","value":"v"}'])
    store.close()
    assert begun(request_).state == store.state


def test_producer_ids_go_on_from_those_that_a_controller_gave_out(
    request_: RestoreRequest,
) -> None:
    """The ids that producers chose lie above all of them: in a log, or in a snapshot alone."""
    directory = DataDirectory.open(
        FS, request_.broker_dirs[0], node_id=1, cluster_id="c", new_id=lambda: b"1" * 16
    )
    for topic, producer_id in (("u", CHOSEN_PRODUCER_IDS.start), ("w", 7000)):
        log = directory.create_log(topic, TopicId(topic.encode() * 16), 0, LogConfig())
        batch = idempotent_batch(producer_id, 0, b"v")
        log.append_as_leader(batch, read_header(batch), leader_epoch=1)
        log.close()
    snapshot = serialize(
        [(chosen, 0, 0, 0, 0, -1, -1, -1, -1) for chosen in (8000, CHOSEN_PRODUCER_IDS.stop - 1)]
    )
    Path(request_.broker_dirs[0], "w-0", "00000000000000000000.snapshot").write_bytes(snapshot)
    directory.close()
    restore(request_)
    state = begun(request_).state
    assert state.next_producer_id >= 8001 + PRODUCER_ID_STEP
    assert state.next_producer_id < CHOSEN_PRODUCER_IDS.start


def test_an_old_store_gives_what_brokers_do_not_know_and_is_kept_aside(
    request_: RestoreRequest,
) -> None:
    old = StoreRun(FS, request_.controller_dir)
    for values in some_decisions():
        old.append(values)
    old.close()
    restoration = restore(replace(request_, recreate_missing=True))
    assert restoration.state.former_stores[0] == old.directory.store_id
    assert restoration.state.dynamic_defaults == old.state.dynamic_defaults
    assert len(list(Path(request_.controller_dir).glob("*-stray/*.log"))) == 1
    again = restore(replace(request_, recreate_missing=True))
    assert again.state.last_offset > restoration.state.last_offset
    assert again.state.controller_epoch > restoration.state.controller_epoch
    assert len(again.state.former_stores) == 3


def test_nothing_is_changed_until_it_is_carried_out(request_: RestoreRequest) -> None:
    runtime = replace(real_runtime("test"), fs=FS)
    with Restoration(runtime, request_):
        pass
    assert sorted(p.name for p in Path(request_.controller_dir).iterdir()) == [".lock"]
    state = read_state(FS, request_.broker_dirs[0])
    assert state is not None
    assert state.store_id == "lost"


def test_a_directory_in_use_or_of_another_cluster_or_kind_is_refused(
    request_: RestoreRequest, tmp_path: Path
) -> None:
    running = DataDirectory.open(
        FS, request_.broker_dirs[0], node_id=1, cluster_id="c", new_id=lambda: bytes(16)
    )
    with pytest.raises(DirectoryError, match="in use by a running server: stop it"):
        restore(request_)
    running.close()
    with pytest.raises(CannotRestore, match="give all of them"):
        restore(replace(request_, broker_dirs=()))
    with pytest.raises(CannotRestore, match="--node-id"):
        restore(replace(request_, node_id=None))
    with pytest.raises(DirectoryError, match=r"no meta\.properties"):
        restore(replace(request_, broker_dirs=(str(tmp_path),)))
    foreign = DataDirectory.open(
        FS, str(tmp_path / "other"), node_id=9, cluster_id="d", new_id=lambda: bytes(16)
    )
    foreign.close()
    with pytest.raises(CannotRestore, match="several clusters"):
        restore(replace(request_, broker_dirs=(*request_.broker_dirs, str(tmp_path / "other"))))


def test_a_store_that_does_not_read_is_done_without_only_by_word(request_: RestoreRequest) -> None:
    old = StoreRun(FS, request_.controller_dir)
    for values in some_decisions():
        old.append(values)
    old.close()
    (log,) = Path(request_.controller_dir).glob("*/*.log")
    log.write_bytes(log.read_bytes()[50:])
    with pytest.raises(CannotRestore, match="--discard-store to do without"):
        restore(request_)
    restore(replace(request_, discard_store=True))
    assert list(begun(request_).state.topics) == [T]


@pytest.mark.parametrize("call", ["open", "pwritev", "fdatasync", "replace", "fsync_dir"])
def test_wherever_it_breaks_off_it_can_be_run_again(tmp_path: Path, call: str) -> None:
    """The power goes with a failed operation; the old store may be back, never a mixture."""
    for spared in range(60):
        root = tmp_path / str(spared)
        root.mkdir()
        disk = FaultyDisk(root)
        (root / "controller").mkdir()
        old = StoreRun(disk, str(root / "controller"))
        for values in some_decisions()[:4]:
            old.append(values)
        old.close()
        dirs = (broker(root, 1, offset=700), broker(root, 2, offset=800))
        for path in (root, *map(Path, dirs)):
            disk.fsync_dir(str(path))
        request = RestoreRequest(str(root / "controller"), dirs, None, False, True)
        runtime = replace(real_runtime("test"), fs=disk)
        disk.failing[call], disk.spared[call] = errno.EIO, spared
        failed = False
        try:
            with Restoration(runtime, request) as restoration:
                restoration.carry_out()
        except (OSError, DirectoryError):
            failed = True
        disk.failing.clear()
        disk.spared.clear()
        disk.kill()
        controller = root / "controller"
        if not (controller / DIRECTORY).exists():
            with pytest.raises(
                DirectoryError, match=f"-stray back to {DIRECTORY} and run it again"
            ):
                restore(request)
            (aside,) = controller.glob("*-stray")
            aside.rename(controller / DIRECTORY)
        again = restore(request)
        assert begun(request).state == again.state
        assert set(old.state.dynamic_defaults) <= set(again.state.dynamic_defaults)
        if not failed:
            return
    raise AssertionError(f"{call} never ended")
