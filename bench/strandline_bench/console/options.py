"""The command line of `strandline bench console`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline_bench.options import add_baseline, positive
from strandline_runtime.command_parser import CommandParser

PARTS: Final = {
    "pixel": "time from the send of a record until Chromium has drawn its leader's log end",
    "kill": "time from the SIGKILL of a broker until Chromium has drawn that the board lost it",
    "cost": "cores that the console and its watch take, of rounds with and without it",
}


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    only: tuple[str, ...]
    brokers: int
    partitions: int
    replication_factor: int
    records: int
    records_per_s: int
    seconds: int
    rounds: int
    flush_policy: str
    as_json: bool
    measure: str = "console"

    @property
    def min_insync_replicas(self) -> int:
        return min(2, self.replication_factor)

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        return {
            "only": ",".join(self.only),
            "brokers": self.brokers,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "records": self.records,
            "records_per_s": self.records_per_s,
            "seconds": self.seconds,
            "rounds": self.rounds,
            "flush_policy": self.flush_policy,
        }


def parse(argv: Sequence[str]) -> ConsoleOptions:
    """The options. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    return ConsoleOptions(
        only=tuple(given.only or PARTS),
        brokers=given.brokers,
        partitions=given.partitions,
        replication_factor=min(3, given.brokers),
        records=given.records,
        records_per_s=given.records_per_s,
        seconds=given.seconds,
        rounds=given.rounds,
        flush_policy=given.flush_policy,
        as_json=given.format == "json",
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench console",
        description="Measures the console of a new cluster in a temporary directory. `pixel` and"
        " `kill` need chromium and chromedriver.",
        example="strandline bench console",
        rows={"Parts": PARTS},
    )
    add = parser.add_argument
    add(
        "--only",
        action="append",
        choices=tuple(PARTS),
        help="measure this part; may be repeated (all parts)",
    )
    add("--brokers", type=positive, default=3, help="number of brokers (3)")
    add("--partitions", type=positive, default=300, help="number of partitions (300)")
    add("--records", type=positive, default=100, help="pixel: records that are followed (100)")
    add(
        "--records-per-s",
        type=positive,
        default=300,
        help="cost: records that all partitions take meanwhile (300)",
    )
    add("--seconds", type=positive, default=10, help="cost: seconds of a round (10)")
    add(
        "--rounds",
        type=positive,
        default=3,
        help="cost: rounds with and without console; kill: kills (3)",
    )
    flushes = ("replicated", "always")
    add("--flush-policy", choices=flushes, default="replicated", help="fsync (replicated)")
    add_baseline(parser)
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    return parser
