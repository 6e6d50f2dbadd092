"""Which logs the cleaner looks at: those that are compacted, however many others there are."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from strandline_broker.hosts.log_cleaner import LogCleaner


class FakePartition:
    """Counts the looks at its log."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.looks = 0
        self.out_of_service = None

    @property
    def log(self) -> Any:
        self.looks += 1
        # Nothing is cleaned of a log that was given up.
        return SimpleNamespace(
            config=SimpleNamespace(
                cleanup_policy=(self.policy,), max_message_decompressed_bytes=1000
            ),
            state=SimpleNamespace(truncations=0),
            deleted=True,
        )


def a_cleaner() -> Any:
    runtime: Any = SimpleNamespace(
        fs=None,
        clock=SimpleNamespace(time=lambda: 0.0),
        log=None,
        metrics=CollectorRegistry(),
        serial_executor=lambda _: ThreadPoolExecutor(1),
    )
    unused: Any = None
    return LogCleaner(runtime, unused, unused, unused)


async def test_a_look_costs_what_is_compacted() -> None:
    cleaner = a_cleaner()
    others, compacted = [FakePartition("delete") for _ in range(1000)], FakePartition("compact")
    for partition in (*others, compacted):
        cleaner.on_configured(partition)
    looks, before = [each.looks for each in others], compacted.looks
    assert not await cleaner.clean_next()
    assert [each.looks for each in others] == looks
    assert compacted.looks > before


async def test_what_is_compacted_no_more_or_not_held_is_not_looked_at() -> None:
    cleaner = a_cleaner()
    altered, dropped = FakePartition("compact"), FakePartition("compact")
    for partition in (altered, dropped):
        cleaner.on_configured(partition)
    altered.policy = "delete"
    cleaner.on_configured(altered)
    cleaner.forget(dropped)
    looks = altered.looks, dropped.looks
    assert not await cleaner.clean_next()
    assert (altered.looks, dropped.looks) == looks
    altered.policy = "compact"
    cleaner.on_configured(altered)
    await cleaner.clean_next()
    assert altered.looks > looks[0] + 1
