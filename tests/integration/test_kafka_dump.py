"""Kafka's own dump tool reads every file that Strandline writes and has nothing to complain of."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.producer_snapshot import parse
from strandline_proto.batch import Compression, build_batch, read_header
from support.compaction import COMPACTED, clean, records_of
from support.kafka_golden import close as close_all
from support.kafka_golden import copy_to, opened
from support.kafka_tools import Dump, Fields, KafkaTools
from support.producer_log import ProducerLog, idempotent_batch, loaded, replayed
from support.storage import Store

pytestmark = [pytest.mark.integration, pytest.mark.maven]

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=300)
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    try:
        return KafkaTools.resolve(tmp_path_factory.mktemp("kafka-tools"))
    except RuntimeError as why:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Maven cannot fetch Kafka's tools: {str(why).splitlines()[0]}")


@dataclass
class Writer:
    """Writes to a log and keeps its own account of what must stand there."""

    log: ProducerLog
    account: list[tuple[int, str, str, int]] = field(default_factory=list)
    """(offset, key, value, timestamp)."""
    sequences: dict[int, int] = field(default_factory=dict)

    def anonymous(self, compression: Compression, count: int, *, epoch: int) -> None:
        first = self.log.log.log_end_offset
        time = START_MS + 10 * first
        values = [f"{compression.name}-{first + i}" for i in range(count)]
        self.account += [(first + i, f"k{i}", v, time) for i, v in enumerate(values)]
        pairs = ((b"k%d" % i, v.encode()) for i, v in enumerate(values))
        batch = build_batch(pairs, timestamp_ms=time, compression=compression)
        self.log.append(batch, epoch=epoch)

    def of_producer(self, producer_id: int, count: int, *, epoch: int) -> None:
        first = self.log.log.log_end_offset
        # Not in order: the time index has to leave some batches out.
        time = START_MS + 10 * first - 500 * (first % 3)
        values = [f"p{producer_id}-{first + i}" for i in range(count)]
        self.account += [(first + i, "", v, time) for i, v in enumerate(values)]
        sequence = self.sequences.get(producer_id, 0)
        encoded = [v.encode() for v in values]
        batch = idempotent_batch(producer_id, sequence, *encoded, timestamp_ms=time)
        self.log.append(batch, epoch=epoch)
        self.sequences[producer_id] = sequence + count

    def cut(self, to: int) -> None:
        self.log.truncate(to)
        end = self.log.log.log_end_offset
        self.account = [row for row in self.account if row[0] < end]
        self.sequences = {entry[0]: entry[2] + 1 for entry in self.log.entries}


def written(path: Path) -> Writer:
    """Every codec, two producers, three epochs, rolls, and a cut in the midst of it."""
    w = Writer(ProducerLog(Store(path, CONFIG)))
    for turn in range(20):
        for compression in Compression:
            w.anonymous(compression, turn % 3 + 1, epoch=0)
        w.of_producer(7, 4, epoch=0)
        w.of_producer(8, 2, epoch=0)
    w.cut(w.log.log.log_end_offset // 2)
    for turn in range(20):
        w.of_producer(7, turn % 4 + 1, epoch=2)
        w.anonymous(Compression.ZSTD, 12, epoch=2)
    w.log.stop()
    w.of_producer(9, 3, epoch=5)
    return w


def check(kafka: KafkaTools, w: Writer, *, closed: bool) -> Dump:
    """Nothing to complain of, and every record, index entry and producer as it should be."""
    folder = w.log.store.log_dir
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 5
    files = sorted(p for p in folder.iterdir() if p.name[:20].isdigit())
    assert {p.suffix for p in files} == {".log", ".index", ".timeindex", ".snapshot"}
    before = {p: p.read_bytes() for p in files}
    dump = kafka.dump(files, "--deep-iteration", "--print-data-log")
    assert dump.complaints == []
    assert {p: p.read_bytes() for p in files} == before
    found = [
        (int(r["offset"]), r.get("key", ""), r["payload"], int(r["CreateTime"]))
        for r in dump.records
    ]
    assert found == w.account
    check_batches(dump.batches)
    sealed = logs if closed else logs[:-1]
    assert {f"{p.stem}.timeindex" for p in sealed} <= set(dump.index_entries)
    check_index_entries(dump)
    for path in folder.glob("*.snapshot"):
        ours = [
            (e.producer_id, e.producer_epoch, e.last_sequence, e.last_offset, e.timestamp)
            for e in parse(path.read_bytes())
        ]
        names = ("producerId", "producerEpoch", "lastSequence", "lastOffset", "timestamp")
        theirs = [tuple(int(f[n]) for n in names) for f in dump.producers.get(path.name, [])]
        assert ours == theirs, path.name
    for options in ("--index-sanity-check", "--verify-index-only"):
        looked = kafka.dump(files, options)
        assert looked.complaints == [], options
    return dump


def check_batches(batches: list[Fields]) -> None:
    assert all(b["isvalid"] == "true" for b in batches)
    assert {b["compresscodec"] for b in batches} == {c.name.lower() for c in Compression}
    assert {b["partitionLeaderEpoch"] for b in batches} == {"0", "2", "5"}
    assert {"-1", "7", "8", "9"} == {b["producerId"] for b in batches}


def check_index_entries(dump: Dump) -> None:
    """Each entry of an offset index names a batch; the tool looks for the others itself."""
    places = {(int(b["lastOffset"]), int(b["position"])) for b in dump.batches}
    entries = [e for n, es in dump.index_entries.items() if n.endswith(".index") for e in es]
    assert len(entries) > 10
    assert set(entries) <= places


def test_kafka_reads_what_a_leader_and_a_follower_wrote(kafka: KafkaTools, tmp_path: Path) -> None:
    w = written(tmp_path / "leader")
    follower = ProducerLog(Store(tmp_path / "follower", CONFIG))
    while follower.log.log_end_offset < w.log.log.log_end_offset:
        follower.copy_from(w.log.log, max_bytes=700, epoch=5)
    w.log.log.close()
    check(kafka, w, closed=True)
    follower.store.flush()
    check(kafka, Writer(follower, w.account), closed=False)


def test_kafka_reads_a_log_of_its_own_that_was_written_on(
    kafka: KafkaTools, tmp_path: Path
) -> None:
    root = copy_to(tmp_path / "golden") / "clean"
    directory, logs, _ = opened(root)
    batch = build_batch([(b"k", b"ours")] * 4, timestamp_ms=1_800_000_000_000)
    names = ("txn-0", "compact-0", "idempotent-0", "codecs-0", "epochs-0")
    for name in names:
        loaded(logs[name])
        if name == "txn-0":
            logs[name].truncate_to(60)
            loaded(logs[name])
        for _ in range(150):
            logs[name].append_as_leader(batch, read_header(batch), leader_epoch=9)
    close_all(directory, logs)
    for name in names:
        files = sorted(p for p in (root / name).iterdir() if p.name[:20].isdigit())
        dump = kafka.dump(files, "--deep-iteration")
        assert dump.complaints == [], name
        assert sum(b["partitionLeaderEpoch"] == "9" for b in dump.batches) == 150
    assert "txnindex" in " ".join(p.name for p in (root / "txn-0").iterdir())


def test_kafka_reads_what_the_cleaner_left(kafka: KafkaTools, tmp_path: Path) -> None:
    """Gaps, a tombstone with its horizon, and the empty last batch of a producer."""
    p = ProducerLog(Store(tmp_path, COMPACTED))
    p.append(idempotent_batch(7, 0, b"of no key"))
    for turn in range(30):
        codec = Compression(turn % len(Compression))
        pairs = [(b"k%d" % (turn % 4 + i), b"value-%d-%d" % (turn, i) * 4) for i in range(3)]
        p.append(build_batch(pairs, timestamp_ms=START_MS + turn, compression=codec))
    p.append(build_batch([(b"k1", None)], timestamp_ms=START_MS + 31))
    for producer_id, sequence in ((8, 0), (9, 0), (8, 1)):
        superseded = build_batch(
            [(b"p", b"%d" % producer_id * 200)],
            timestamp_ms=START_MS + 32,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        p.append(superseded)
    p.append(build_batch([(b"p", b"x" * 300)], timestamp_ms=START_MS + 33))
    p.append(build_batch([(b"other", b"x" * 300)], timestamp_ms=START_MS + 34))
    before = p.entries
    live = {entry[0]: entry[3] for entry in before}
    for _ in range(2):
        clean(p.store, now_ms=START_MS + 100, live_producers=live)
    assert replayed(p.log).entries() == before, "I-79"
    p.stop()
    assert p.entries == before
    files = sorted(f for f in p.store.log_dir.iterdir() if f.name[:20].isdigit())
    dump = kafka.dump(files, "--deep-iteration", "--print-data-log")
    assert dump.complaints == []
    assert [(int(r["offset"]), r.get("payload", "")) for r in dump.records] == [
        (r.offset, (r.value or b"").decode()) for r in records_of(p.log)
    ]
    assert {"0"} < {b["count"] for b in dump.batches}, "an empty batch"
    horizons = {b["deleteHorizonMs"] for b in dump.batches}
    assert horizons == {"OptionalLong.empty", f"OptionalLong[{START_MS + 100 + 1000}]"}
    for options in ("--index-sanity-check", "--verify-index-only"):
        assert kafka.dump(files, options).complaints == [], options


def test_kafka_reads_a_snapshot_with_where_a_producer_begins(
    kafka: KafkaTools, tmp_path: Path
) -> None:
    """The bytes behind the entries are under the checksum, and Kafka's reader ignores them."""
    p = ProducerLog(Store(tmp_path, CONFIG))
    p.append(idempotent_batch(7, 30, b"of a forgotten producer", timestamp_ms=START_MS))
    p.append(idempotent_batch(8, 0, b"of a new one", timestamp_ms=START_MS + 1))
    p.stop()
    snapshot = sorted(p.store.log_dir.glob("*.snapshot"))[-1]
    data = snapshot.read_bytes()
    assert [entry.begins_at for entry in parse(data)] == [30, -1]
    dump = kafka.dump([snapshot])
    assert dump.complaints == []
    names = ("producerId", "lastSequence", "lastOffset", "timestamp")
    found = [tuple(int(f[n]) for n in names) for f in dump.producers[snapshot.name]]
    assert found == [(7, 30, 0, START_MS), (8, 0, 1, START_MS + 1)]
    snapshot.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert kafka.dump([snapshot]).complaints, "the bytes behind the entries are checked too"


def test_the_dump_tool_complains_where_there_is_cause(kafka: KafkaTools, tmp_path: Path) -> None:
    """Or its silence elsewhere would say nothing."""
    folder = written(tmp_path / "leader").log.store.log_dir
    copy = tmp_path / "damaged"
    shutil.copytree(folder, copy)
    log = sorted(copy.glob("*.log"))[0]

    def flip(path: Path, at: int) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    flip(log, 70)
    assert "isvalid: false" in "".join(kafka.dump([log], "--deep-iteration").complaints)
    shutil.copy(folder / log.name, log)
    for suffix, at in ((".index", 7), (".timeindex", 7)):
        flip(log.with_suffix(suffix), at)
        assert kafka.dump([log, log.with_suffix(suffix)]).complaints, suffix
    snapshot = sorted(copy.glob("*.snapshot"))[0]
    flip(snapshot, 30)
    assert kafka.dump([snapshot]).complaints
