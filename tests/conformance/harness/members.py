"""Members of one group in several clients, polled in turn by threads of the test."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.harness.driver import Driver

TURN_S = 0.5
SETTLE_S = 60.0

Assignment = dict[str, list[int]]


class Members:
    """Each member is a driver with one consumer; `turn` polls all of them at the same time."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.drivers: dict[str, Driver] = {}
        self.records: list[dict[str, Any]] = []
        self.events: list[tuple[str, str, list[int]]] = []
        """(member, "assigned", "revoked" or "lost", partitions), in the order of each member."""

    def join(self, member: str, driver: Driver, **options: Any) -> None:
        driver.call("open", name="member", group=self.group, topic=self.topic, **options)
        self.drivers[member] = driver

    def leave(self, member: str) -> None:
        self.drivers.pop(member).call("close", name="member")

    def turn(self) -> Assignment:
        """The assignments after every member polled once."""
        with ThreadPoolExecutor(len(self.drivers)) as pool:
            asked = {
                member: pool.submit(driver.call, "poll", name="member", count=0, wait_s=TURN_S)
                for member, driver in self.drivers.items()
            }
            answers = {member: each.result() for member, each in asked.items()}
        for member, answer in answers.items():
            self.records += answer["records"]
            self.events += [(member, kind, partitions) for kind, partitions in answer["events"]]
        return {member: answer["assigned"] for member, answer in answers.items()}

    def until(self, settled: Callable[[Assignment], bool], what: str) -> Assignment:
        """Polls until the assignments are as wanted and stay so for three turns."""
        deadline = time.monotonic() + SETTLE_S
        in_a_row = 0
        while True:
            assigned = self.turn()
            in_a_row = in_a_row + 1 if settled(assigned) else 0
            if in_a_row == 3:
                return assigned
            assert time.monotonic() < deadline, f"not within {SETTLE_S} s: {what}: {assigned}"

    def until_shared(self, partitions: int) -> Assignment:
        """Polls until each partition has one member, and all members have equally many."""
        each = partitions // len(self.drivers)

        def shared(assigned: Assignment) -> bool:
            held = sorted(number for part in assigned.values() for number in part)
            return held == list(range(partitions)) and all(
                len(part) == each for part in assigned.values()
            )

        return self.until(shared, f"{each} partitions for each member")

    def until_read(self, count: int) -> list[dict[str, Any]]:
        """Polls until `count` records are there; returns and forgets them."""
        deadline = time.monotonic() + SETTLE_S
        while len(self.records) < count:
            assert time.monotonic() < deadline, f"{len(self.records)} records of {count}"
            self.turn()
        records, self.records = self.records, []
        return records
