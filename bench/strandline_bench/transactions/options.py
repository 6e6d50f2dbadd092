"""The command line of `strandline bench transactions`: Strandline and Apache Kafka."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_bench.kafka.options import SCRIPT
from strandline_bench.options import add_baseline, positive
from strandline_runtime.command_parser import CommandParser

PARTS: Final = {
    "one_partition": "begin to commit, one record in one partition, back to back",
    "all_partitions": "begin to commit, one record in each of --partitions",
    "share_of_plain": "records of 1,000 bytes with a commit every 100 ms, and without",
    "read_committed": "a log with a tenth aborted, read committed, and a plain log",
    "load": "a coordinator's partition with 100,000 ids, as after a failover; no cluster",
}
ALONE: Final = "load"
"""The part that needs neither a cluster nor a client."""


@dataclass(frozen=True, slots=True)
class TransactionsOptions:
    only: tuple[str, ...]
    producers: int
    partitions: int
    rounds: int
    records: int
    megabytes: int
    kafka_version: str
    kafka_script: Path | None
    """None: Strandline alone is measured."""
    as_json: bool
    brokers: int = 3
    flush_policy: str = "replicated"
    measure: str = "transactions"

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        if self.only == (ALONE,):
            return {"only": ALONE, "rounds": self.rounds}
        import confluent_kafka

        return {
            "only": ",".join(self.only),
            "producers": self.producers,
            "partitions": self.partitions,
            "rounds": self.rounds,
            "transactions": self.records,
            "megabytes": self.megabytes,
            "brokers": self.brokers,
            "replication_factor": self.brokers,
            "flush_policy": self.flush_policy,
            "kafka": self.kafka_version if self.kafka_script is not None else "not measured",
            "librdkafka": confluent_kafka.libversion()[0],
        }


def parse(argv: Sequence[str]) -> TransactionsOptions:
    """The options. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    only = tuple(part for part in PARTS if not given.only or part in given.only)
    script = None if given.without_kafka else given.kafka_script or SCRIPT
    if only != (ALONE,):
        _check_clusters(parser, script)
    return TransactionsOptions(
        only=only,
        producers=given.producers,
        partitions=given.partitions,
        rounds=given.rounds,
        records=given.transactions,
        megabytes=given.megabytes,
        kafka_version=given.kafka_version,
        kafka_script=script,
        as_json=given.format == "json",
    )


def _check_clusters(parser: argparse.ArgumentParser, script: Path | None) -> None:
    try:
        import confluent_kafka  # noqa: F401 - whether it is there
    except ImportError:
        parser.error("the benchmark needs confluent-kafka: pip install confluent-kafka")
    if script is not None and not script.is_file():
        parser.error(
            f"--kafka-script {script} is no file; name a script with the commands up, status, kill,"
            " restart and down, or give --without-kafka"
        )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench transactions",
        description="Measures transactions of Strandline and of Apache Kafka through librdkafka,"
        " in alternating rounds on two new clusters of three brokers each. Strandline's own client"
        " is measured beside them. The part `load` measures a coordinator alone.",
        example="strandline bench transactions --partitions 10",
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
    add("--producers", type=positive, default=1, help="producers at the same time (1)")
    add("--partitions", type=positive, default=10, help="partitions of a transaction (10)")
    add("--rounds", type=positive, default=5, help="rounds of each part on each side (5)")
    add(
        "--transactions",
        type=positive,
        default=300,
        help="transactions of a producer in a round (300)",
    )
    add("--megabytes", type=positive, default=50, help="bytes of 1 KB records in a round (50)")
    add("--kafka-version", default="4.3.0", help="version of Apache Kafka (4.3.0)")
    add(
        "--kafka-script",
        type=Path,
        help="script that runs Apache Kafka, with a JDK and Maven (the one beside the checkout)",
    )
    add("--without-kafka", action="store_true", help="measure Strandline alone")
    add_baseline(parser)
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    return parser
