"""The benchmarks' command line: the measure, the cluster, and the output format."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline_bench.peers import kafka as kafka_peer
from strandline_cli.cluster.target import find_target
from strandline_local.contexts import CONTEXT_VARIABLE
from strandline_local.errors import ClusterError
from strandline_runtime.command_parser import CommandParser

MEASURES: Final = {
    "startup": "time from exec on an empty directory to the first acknowledgement; idle memory",
    "failover": "time from SIGKILL of a leader to the next acknowledged write on its partition",
    "produce": "writes by send_many and by send",
    "consume": "reads, every record an object",
    "ranges": "bulk reads as Spark makes them: FetchRange, nothing decoded",
    "blocking": "strandline.sync: send, acknowledged send, iteration",
    "latency": "latency of one awaited record at a time",
    "requests": "delay of a health call by one large request of each kind",
    "partitions": "thousands of partitions: creation, rest, a killed broker, its return",
    "testing": "the pytest plugin: time until its cluster is ready, time to get a topic",
}
OWN_CLUSTER: Final = ("startup", "failover", "partitions", "requests", "testing")
"""Measures that break their cluster, or time its start."""
OTHERS: Final = {
    "log": "the log alone, without a cluster",
    "console": "the console: event to pixel, kill, cost",
    "group": "consumer groups",
    "kafka": "Strandline and Apache Kafka by Kafka's protocol",
    "transactions": "transactions of Strandline and of Apache Kafka",
    "spark": "Spark's data source",
}
"""Measures with options of their own: `strandline bench log --help`."""
BYTES_BY_DEFAULT: Final = 256 << 20
RECORDS_MAX_BY_DEFAULT: Final = 2_000_000
PARTITIONS: Final = {
    "startup": 1,
    "failover": 1,
    "produce": 3,
    "consume": 3,
    "ranges": 3,
    "blocking": 3,
    "latency": 1,
    "requests": 1,
    "partitions": 3000,
    "testing": 1,
}
ROUNDS: Final = {
    "startup": 5,
    "failover": 20,
    "produce": 3,
    "consume": 3,
    "ranges": 3,
    "blocking": 3,
    "latency": 3,
    "requests": 1,
    "partitions": 1,
    "testing": 5,
}

BASELINE_ROUNDS: Final = 5
BASELINE_ROUND_S_MAX: Final = 900


@dataclass(frozen=True, slots=True)
class Options:
    measure: str
    bootstrap: str | None
    brokers: int
    replication_factor: int
    min_insync_replicas: int
    acks: str
    record_size: int
    partitions: int
    compression: str
    records: int
    flush_policy: str
    rounds: int
    batch_size: int
    api: str
    floor: bool
    watched: bool
    with_controller: bool
    peer_kafka: str | None
    peer_kill: str | None
    peer_restart: str | None
    as_json: bool

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        cluster = (
            {"bootstrap": self.bootstrap}
            if self.bootstrap is not None
            else {"brokers": self.brokers, "flush_policy": self.flush_policy}
        )
        return {
            **cluster,
            "replication_factor": self.replication_factor,
            "min_insync_replicas": self.min_insync_replicas,
            "acks": self.acks,
            "record_size": self.record_size,
            "partitions": self.partitions,
            "compression": self.compression,
            "records": self.records,
            "batch_size": self.batch_size,
            "rounds": self.rounds,
            **({"watched": True} if self.watched else {}),
            **({"with_controller": True} if self.with_controller else {}),
            **({} if self.peer_kafka is None else {"peer_kafka": self.peer_kafka}),
        }


def parse(argv: Sequence[str]) -> Options:
    """The options, with defaults that depend on the measure. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    bootstrap = _named(parser, given)
    own_cluster = bootstrap is None
    if given.measure in OWN_CLUSTER and not own_cluster:
        parser.error(f"{given.measure} needs its own cluster: it takes no --bootstrap or --context")
    if given.with_controller and given.measure != "failover":
        parser.error(f"--with-controller is of failover, not of {given.measure}")
    if given.watched and given.measure not in ("produce", "latency"):
        parser.error(f"--watched is of produce and latency, not of {given.measure}")
    if given.peer_kafka is not None and given.measure != "partitions":
        parser.error(f"--peer-kafka is of partitions and group, not of {given.measure}")
    if (given.peer_kill is None) != (given.peer_restart is None):
        parser.error("--peer-kill and --peer-restart go together")
    if given.peer_kill is not None and given.peer_kafka is None:
        parser.error("--peer-kill and --peer-restart are of --peer-kafka")
    kafka_peer.check_option(parser, given.peer_kafka)
    if own_cluster and given.replication_factor > given.brokers:
        parser.error(
            f"--replication-factor {given.replication_factor} needs as many --brokers,"
            f" and there are {given.brokers}"
        )
    records = given.records
    if records is None:
        records = max(1000, min(RECORDS_MAX_BY_DEFAULT, BYTES_BY_DEFAULT // given.record_size))
        records = {"latency": 5000, "testing": 100}.get(given.measure, records)
    return Options(
        measure=given.measure,
        bootstrap=bootstrap,
        brokers=given.brokers,
        replication_factor=given.replication_factor,
        min_insync_replicas=min(2, given.replication_factor),
        acks=given.acks,
        record_size=given.record_size,
        partitions=given.partitions or PARTITIONS[given.measure],
        compression=given.compression,
        records=records,
        flush_policy=given.flush_policy,
        rounds=given.rounds if given.rounds is not None else ROUNDS[given.measure],
        batch_size=given.batch_size,
        api=given.api,
        floor=given.floor,
        watched=given.watched,
        with_controller=given.with_controller,
        peer_kafka=given.peer_kafka,
        peer_kill=given.peer_kill,
        peer_restart=given.peer_restart,
        as_json=given.json or given.format == "json",
    )


def _named(parser: argparse.ArgumentParser, given: argparse.Namespace) -> str | None:
    """Addresses of the cluster that is named; None for a new cluster."""
    if given.context is None:
        return str(given.bootstrap) if given.bootstrap is not None else None
    if given.bootstrap is not None:
        parser.error("--context names a cluster: leave out --bootstrap, or --context")
    around = {**os.environ, CONTEXT_VARIABLE: given.context}
    try:
        return find_target(bootstrap=None, directory=None, environ=around).bootstrap
    except ClusterError as error:
        parser.error(str(error))


def positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add `--baseline` to a benchmark's options; `baseline.wanted` reads it."""
    add = parser.add_argument
    add(
        "--baseline",
        metavar="COMMAND",
        help="alternate rounds with another checkout's `strandline`, for instance"
        f" /path/to/other/.venv/bin/strandline ({BASELINE_ROUNDS} rounds): medians and ratios",
    )
    add(
        "--baseline-round-s",
        type=positive,
        default=BASELINE_ROUND_S_MAX,
        metavar="SECONDS",
        help=f"seconds that one side may take for one round ({BASELINE_ROUND_S_MAX})",
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench",
        description="Measure startup, failover, throughput, latency and more, of a new cluster in a"
        " temporary directory or of the given one.",
        example="strandline bench produce --records 100000",
        rows={"Measures": MEASURES, "Measures with options of their own": OTHERS},
    )
    add = parser.add_argument
    add("measure", choices=tuple(MEASURES), metavar="MEASURE", help=", ".join(MEASURES))
    add("--bootstrap", metavar="HOST:PORT,...", help="measure this cluster instead of a new one")
    add(
        "--context",
        metavar="NAME",
        help="the same by its name, see strandline context add; only this flag reaches a named"
        " cluster: a measure fills topics",
    )
    add("--brokers", type=positive, default=3, help="number of brokers of the new cluster (3)")
    add("--replication-factor", type=positive, default=3, help="replicas of a partition (3)")
    add("--acks", choices=("0", "1", "all"), default="all", help="acks of the producer (all)")
    add("--record-size", type=positive, default=1024, help="bytes of a value (1024)")
    add("--partitions", type=positive, help="number (3; failover, latency: 1; partitions: 3000)")
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    add("--compression", choices=codecs, default="none", help="codec of the batches (none)")
    add("--records", type=positive, help="records of a round (256 MB; testing: 100 tests)")
    flushes = ("replicated", "always")
    add("--flush-policy", choices=flushes, default="replicated", help="fsync (replicated)")
    add("--rounds", type=positive, help="rounds (5 startups, 20 kills, 3 of most measures)")
    add("--batch-size", type=positive, default=256 << 10, help="bytes of a batch (262144)")
    add("--api", choices=("send_many", "send", "both"), default="both", help="produce API (both)")
    add("--floor", action="store_true", help="alternate with a bare path, the transport's limit")
    add(
        "--watched",
        action="store_true",
        help="produce, latency: alternate with rounds in which one watcher reads every server's"
        " Watch stream",
    )
    add(
        "--with-controller",
        action="store_true",
        help="failover: kill the controller with the leader, and restart only it",
    )
    add_baseline(parser)
    kafka_peer.add_option(parser)
    add("--peer-kill", metavar="COMMAND", help="kill a broker of it; the last argument is its id")
    add("--peer-restart", metavar="COMMAND", help="start that broker again")
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    add("--json", action="store_true", help="the same as --format json")
    return parser
