"""The command line of `strandline bench spark`: the data source, beside Kafka's connector."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline_bench.options import add_baseline, positive
from strandline_bench.peers import kafka as kafka_peer
from strandline_runtime.command_parser import CommandParser

PARTITIONS: Final = {
    "spark": 4,
    "spark_planning": 1000,
    "spark_memory": 4,
    "spark_gold": 4,
    "spark_age": 3,
    "spark_startup": 4,
}
ROUNDS: Final = {
    "spark": 5,
    "spark_planning": 30,
    "spark_memory": 1,
    "spark_gold": 5,
    "spark_age": 10,
    "spark_startup": 5,
}
COMPARED_ROUNDS_MIN: Final = 5
ALONE: Final = {
    "spark_planning": "--planning",
    "spark_memory": "--worker-memory",
    "spark_gold": "--gold",
    "spark_age": "--age",
    "spark_startup": "--startup",
}
INSTEAD: Final = {
    "spark_planning": "time of the driver to plan a micro-batch, without Spark",
    "spark_memory": "peak memory of a worker that reads --gigabytes of 1 KB records",
    "spark_gold": "a gold step over a million rows of silver in a thousand windows",
    "spark_age": "a micro-batch with a gold step on tables of a week, against those of an hour,"
    " and `verify` of the last hour after 30 days",
    "spark_startup": "processor time of `ingest bronze --once` with nothing to read, against"
    " an empty streaming source in Python",
}
SMALL: Final = 100
LARGE: Final = 1024
RECORDS: Final = {SMALL: 4_000_000, LARGE: 1_000_000}
SINKS: Final = {
    "noop": "a batch query whose rows are dropped",
    "delta": "one micro-batch of `ingest bronze` (direct) against the connector to Parquet",
    "parquet": "a batch query to Parquet files, which the JVM writes",
    "silver": "JSON of five fields: a pipeline's micro-batch, to bronze and silver, against the"
    " connector and from_json to Parquet",
    "state": "JSON of five fields: a pipeline's micro-batch, to bronze, silver and the latest row"
    " of 100,000 keys (of 4 partitions); up to a million records, without a peer",
}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    measure: str
    brokers: int
    replication_factor: int
    min_insync_replicas: int
    partitions: int
    rounds: int
    records: dict[int, int]
    """Number of records by the size of their values in bytes."""
    sinks: tuple[str, ...]
    batch_size: int
    master: str
    memory: str
    phases: bool
    gigabytes: int
    flush_policy: str
    peer_kafka: str | None
    peer_jars: str | None
    as_json: bool

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        told: dict[str, object] = {
            "brokers": self.brokers,
            "replication_factor": self.replication_factor,
            "min_insync_replicas": self.min_insync_replicas,
            "partitions": self.partitions,
            "rounds": self.rounds,
            "flush_policy": self.flush_policy,
        }
        if self.measure in ("spark_planning", "spark_startup"):
            return told
        if self.measure in ("spark_gold", "spark_age"):
            return {"master": self.master, "memory": self.memory, "rounds": self.rounds}
        told |= {"batch_size": self.batch_size, "master": self.master, "memory": self.memory}
        if self.measure == "spark_memory":
            return told | {"gigabytes": self.gigabytes}
        told |= {f"records_of_{size}": count for size, count in self.records.items()}
        told["sinks"] = ",".join(self.sinks)
        return told | ({} if self.peer_kafka is None else {"peer_kafka": self.peer_kafka})


def parse(argv: Sequence[str]) -> SparkOptions:
    """The options. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    measure = given.measure or "spark"
    if measure != "spark":
        refused = ("peer_kafka", "phases", "record_size", "records")
        for name in refused if measure == "spark_memory" else (*refused, "sink"):
            if getattr(given, name):
                parser.error(f"--{name.replace('_', '-')} does not go with {ALONE[measure]}")
    if given.peer_jars is not None and given.peer_kafka is None:
        parser.error("--peer-jars is of --peer-kafka")
    rounds = given.rounds or ROUNDS[measure]
    if given.peer_kafka is not None and rounds < COMPARED_ROUNDS_MIN:
        parser.error(
            f"--rounds {rounds} with --peer-kafka: a median of ratios takes {COMPARED_ROUNDS_MIN}"
            " rounds or more"
        )
    if given.replication_factor > given.brokers:
        parser.error(
            f"--replication-factor {given.replication_factor} needs as many --brokers, not"
            f" {given.brokers}"
        )
    kafka_peer.check_option(parser, given.peer_kafka)
    sizes = sorted(set(given.record_size or RECORDS))
    return SparkOptions(
        measure=measure,
        brokers=given.brokers,
        replication_factor=given.replication_factor,
        min_insync_replicas=min(2, given.replication_factor),
        partitions=given.partitions or PARTITIONS[measure],
        rounds=rounds,
        records={size: given.records or RECORDS[size] for size in sizes},
        sinks=tuple(sink for sink in SINKS if sink in (given.sink or SINKS)),
        batch_size=given.batch_size,
        master=given.master,
        memory=given.memory,
        phases=given.phases,
        gigabytes=given.gigabytes,
        flush_policy=given.flush_policy,
        peer_kafka=given.peer_kafka,
        peer_jars=given.peer_jars,
        as_json=given.format == "json",
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench spark",
        description="Measures Spark's data source on a new cluster in a temporary directory: rows a"
        " second to each sink, in one warm JVM. With --peer-kafka, rounds alternate with Spark's"
        " Kafka connector, and the exit status is 1 if a ratio is below its minimum.",
        example="strandline bench spark",
        rows={"Sinks": SINKS},
    )
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group()
    for measure, flag in ALONE.items():
        what.add_argument(
            flag,
            dest="measure",
            action="store_const",
            const=measure,
            help=f"measure instead: {INSTEAD[measure]}",
        )
    add("--phases", action="store_true", help="print a row's cost in each phase, after the rounds")
    kafka_peer.add_option(parser)
    add(
        "--peer-jars",
        metavar="PATH,...",
        help="jars of the connector and its dependencies, instead of Maven's",
    )
    add("--record-size", type=int, action="append", choices=tuple(RECORDS), help="bytes (both)")
    add("--sink", action="append", choices=tuple(SINKS), help="sink to measure; repeatable (all)")
    add("--records", type=positive, help="per size (4,000,000 of 100 B, 1,000,000 of 1 KB)")
    add("--gigabytes", type=positive, default=10, help="gigabytes that --worker-memory reads (10)")
    add("--batch-size", type=positive, default=64 << 10, help="bytes of a batch (65536)")
    add("--rounds", type=positive, help="rounds (5; 30 of --planning)")
    add("--partitions", type=positive, help="partitions of the topic (4; 1000 of --planning)")
    add("--brokers", type=positive, default=3, help="number of brokers (3)")
    add("--replication-factor", type=positive, default=3, help="replicas of a partition (3)")
    flushes = ("replicated", "always")
    add("--flush-policy", choices=flushes, default="replicated", help="fsync (replicated)")
    add("--master", default="local[2]", help="Spark's master (local[2])")
    add("--memory", default="2g", help="the JVM's heap (2g)")
    add_baseline(parser)
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    return parser
