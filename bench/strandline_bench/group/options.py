"""The command line of `strandline bench group`: consumer groups, each part with separate
clusters.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline_bench.options import add_baseline, positive
from strandline_bench.peers import kafka as kafka_peer
from strandline_runtime.command_parser import CommandParser

PARTS: Final = {
    "assignors": "2,000 members over 10,000 partitions, in this process",
    "first_group": "the first group of a new cluster, requested at once after `up`",
    "first_record": "a new group on a topic with records: start() to the first record",
    "commit": "one awaited commit, and commits of 50 consumers at once",
    "join": "a member joins four others, and leaves: time to the final assignments",
    "coordinator_failover": "SIGKILL of the coordinator's broker to the next accepted commit",
    "crash": "SIGKILL of a member until others read its partitions, less its session",
    "members": "members without fetchers for two minutes: fenced members, broker CPU and memory",
}


@dataclass(frozen=True, slots=True)
class GroupOptions:
    only: tuple[str, ...]
    brokers: int
    members: int
    partitions: int
    rounds: int
    members_s: float
    flush_policy: str
    peer_kafka: str | None
    as_json: bool
    measure: str = "group"

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        return {
            "only": ",".join(self.only),
            "brokers": self.brokers,
            "members": self.members,
            "partitions": self.partitions,
            "rounds": self.rounds,
            "members_s": self.members_s,
            "flush_policy": self.flush_policy,
            **({} if self.peer_kafka is None else {"peer_kafka": self.peer_kafka}),
        }


def parse(argv: Sequence[str]) -> GroupOptions:
    """The options. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    kafka_peer.check_option(parser, given.peer_kafka)
    return GroupOptions(
        only=tuple(given.only or PARTS),
        brokers=given.brokers,
        members=given.members,
        partitions=given.partitions,
        rounds=given.rounds,
        members_s=given.members_s,
        flush_policy=given.flush_policy,
        peer_kafka=given.peer_kafka,
        as_json=given.format == "json",
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench group",
        description="Measures consumer groups on new clusters in a temporary directory.",
        example="strandline bench group",
        rows={"Parts": PARTS},
    )
    add = parser.add_argument
    add(
        "--only",
        action="append",
        choices=tuple(PARTS),
        metavar="PART",
        help=f"measure this part: {', '.join(PARTS)}; may be repeated (all)",
    )
    add("--brokers", type=positive, default=3, help="number of brokers (3)")
    add("--members", type=positive, default=2000, help="members in the part `members` (2000)")
    add(
        "--partitions",
        type=positive,
        default=50,
        help="partitions of the topic that members share (50)",
    )
    add(
        "--rounds",
        type=positive,
        default=20,
        help="rounds of measures that are timed one by one (20)",
    )
    add(
        "--members-s",
        type=float,
        default=120.0,
        help="duration of the part `members` in seconds (120)",
    )
    flushes = ("replicated", "always")
    add("--flush-policy", choices=flushes, default="replicated", help="fsync (replicated)")
    add_baseline(parser)
    kafka_peer.add_option(parser)
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    return parser
