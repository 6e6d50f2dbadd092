"""Up to where the shared checkpoints are believed, while they are written (P-16, I-75)."""

from collections.abc import Callable
from pathlib import Path

from support.disk import Hurried
from support.storage import LARGE, Store

KEY = ("t", 0)


class Interrupted(Hurried):
    """`between` happens once, right after the checkpoint of log starts was replaced."""

    between: Callable[[], object] | None = None

    def replace(self, source: str, target: str) -> None:
        super().replace(source, target)
        if target.endswith("log-start-offset-checkpoint") and self.between is not None:
            between, self.between = self.between, None
            between()


def begun_anew(path: Path) -> tuple[Store, Interrupted]:
    """A follower's log that begins where its leader's does; a limit waits for the checkpoints."""
    disk = Interrupted()
    store = Store(path, LARGE, fs=disk)
    store.append(b"x")
    store.flush()
    store.checkpoint()
    store.log.truncate_fully_and_start_at(1000)
    return store, disk


def test_a_log_may_be_removed_while_its_start_is_written(tmp_path: Path) -> None:
    store, disk = begun_anew(tmp_path / "data")
    disk.between = lambda: store.directory.delete_log(store.log)
    store.directory.write_log_starts({KEY: 1000})
    assert disk.between is None


def test_a_limit_of_a_removed_log_does_not_land_in_the_next_of_its_name(tmp_path: Path) -> None:
    store, disk = begun_anew(tmp_path / "data")
    following = bytes(16)

    def between() -> None:
        store.directory.delete_log(store.log)
        store.create(following)

    disk.between = between
    store.directory.write_log_starts({KEY: 1000})
    log = store.restart()
    assert (log.topic_id, log.log_start_offset, log.log_end_offset) == (following, 0, 0)
