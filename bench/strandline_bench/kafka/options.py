"""The command line of `strandline bench kafka`: Strandline and Apache Kafka by Kafka's protocol."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_bench.options import add_baseline, positive
from strandline_runtime.command_parser import CommandParser

PARTS: Final = {
    "produce_1kb": "records of 1,000 bytes, acks=all",
    "produce_100b": "records of 100 bytes, acks=all",
    "consume": "the records of produce_1kb, read from the first",
    "latency": "one awaited record at a time, acks=all, linger 0",
    "group_classic": "a new classic group: subscribe() to the first record",
    "group_consumer": "a new group of KIP-848: subscribe() to the first record",
    "failover": "SIGKILL of a leader to the next acknowledged record",
}
CHECKOUT: Final = Path(__file__).resolve().parents[3]
SCRIPT: Final = CHECKOUT.parent / "shared" / "peers" / "kafka.py"
"""The script that runs Apache Kafka, where the workplace has one."""


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    only: tuple[str, ...]
    rounds: int
    megabytes: int
    records: int
    partitions: int
    kafka_version: str
    kafka_script: Path | None
    """None: Strandline alone is measured."""
    as_json: bool
    brokers: int = 3
    flush_policy: str = "replicated"
    measure: str = "kafka"

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        import confluent_kafka

        return {
            "only": ",".join(self.only),
            "rounds": self.rounds,
            "megabytes": self.megabytes,
            "records": self.records,
            "partitions": self.partitions,
            "brokers": self.brokers,
            "replication_factor": self.brokers,
            "acks": "all",
            "flush_policy": self.flush_policy,
            "kafka": self.kafka_version if self.kafka_script is not None else "not measured",
            "librdkafka": confluent_kafka.libversion()[0],
        }


def parse(argv: Sequence[str]) -> KafkaOptions:
    """The options. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        import confluent_kafka  # noqa: F401 - whether it is there
    except ImportError:
        parser.error("the benchmark needs confluent-kafka: pip install confluent-kafka")
    script = None if given.without_kafka else given.kafka_script
    if script is not None and not script.is_file():
        parser.error(
            f"--kafka-script {script} is no file; name a script with the commands up, status, kill,"
            " restart and down, or give --without-kafka"
        )
    return KafkaOptions(
        only=tuple(part for part in PARTS if not given.only or part in given.only),
        rounds=given.rounds,
        megabytes=given.megabytes,
        records=given.records,
        partitions=given.partitions,
        kafka_version=given.kafka_version,
        kafka_script=script,
        as_json=given.format == "json",
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench kafka",
        description="Measures Strandline and Apache Kafka through librdkafka, in alternating rounds"
        " on two new clusters of three brokers each.",
        example="strandline bench kafka",
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
    add("--rounds", type=positive, default=5, help="rounds of each part on each side (5)")
    add("--megabytes", type=positive, default=100, help="bytes of 1 KB records in a round (100)")
    add("--records", type=positive, default=1000, help="awaited records in a round (1000)")
    add("--partitions", type=positive, default=3, help="partitions of a topic (3)")
    add("--kafka-version", default="4.3.0", help="version of Apache Kafka (4.3.0)")
    add(
        "--kafka-script",
        type=Path,
        default=SCRIPT,
        help="script that runs Apache Kafka; needs a JDK and Maven",
    )
    add("--without-kafka", action="store_true", help="measure Strandline alone")
    add_baseline(parser)
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    return parser
