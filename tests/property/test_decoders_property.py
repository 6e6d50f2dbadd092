"""Whatever the bytes are, a decoder gives a right answer or raises what it says that it raises, in
bounded memory and time.
"""

import ast
import inspect
import random
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import (
    decoders_of_batches,
    decoders_of_documents,
    decoders_of_files,
    decoders_of_frames,
    decoders_of_groups,
    decoders_of_logs,
    decoders_of_pipelines,
)
from support.decoders import Decoder

TABLES = (
    decoders_of_batches,
    decoders_of_documents,
    decoders_of_files,
    decoders_of_frames,
    decoders_of_groups,
    decoders_of_logs,
    decoders_of_pipelines,
)
DECODERS = [each for table in TABLES for each in table.DECODERS]
TABLE = [pytest.param(each, id=each.name) for each in DECODERS]
CPU_SECONDS = 5.0
"""For one call: a thousand times what any takes."""
MEMORY_BYTES = 256 << 20
STRANGE = [
    b"",
    b"\n",
    b"\xff" * 70,
    bytes(5000),
    *(text * 20_000 for text in (b"[", b'{"a":', b'[{"t":', b"9", b"a=", b"a.", b"\xc2\xb2")),
    *(b"null", b"[]", b"{}", b'""', b"1", b"NaN", b"1e999", b"-1", b"[[]]", b'{"version":1}'),
]


def attempt(decoder: Decoder, data: bytes) -> str:
    """What comes of it, in words. Any other error than a declared one fails the test."""
    began = time.thread_time()
    try:
        found = repr(decoder.call(data))
    except decoder.declared as error:
        found = type(error).__name__
    assert time.thread_time() - began < CPU_SECONDS, data[:100]
    return found


def both(decoder: Decoder, data: bytes) -> Iterator[bytes]:
    yield data
    if decoder.seal is not None:
        yield decoder.seal(data)


def damaged(golden: bytes, positions: int, chance: random.Random) -> Iterator[bytes]:
    for at in sorted(chance.sample(range(len(golden)), min(len(golden), positions))):
        yield golden[:at]
        yield golden[:at] + bytes([golden[at] ^ 1 << chance.randrange(8)]) + golden[at + 1 :]
        size = chance.choice((1, 2, 4, 8))
        worst = bytes([chance.choice((0, 0x7F, 0x80, 0xFF))]) + chance.choice((b"\xff", b"\0")) * 7
        yield golden[:at] + worst[:size] + golden[at + size :]
        yield golden[:at] + golden[chance.randrange(len(golden)) :]


@pytest.mark.parametrize("decoder", TABLE)
def test_sound_bytes_are_read(decoder: Decoder) -> None:
    for golden in decoder.golden:
        decoder.call(golden)
        if decoder.seal is not None:
            assert decoder.seal(golden) == golden


@pytest.mark.parametrize("decoder", TABLE)
def test_damaged_bytes_are_a_declared_error_or_an_answer(decoder: Decoder) -> None:
    chance = random.Random(decoder.name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for golden in decoder.golden:
        for data in (*STRANGE, *damaged(golden, decoder.positions, chance)):
            for each in both(decoder, data):
                attempt(decoder, each)
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert added < MEMORY_BYTES


@pytest.mark.parametrize("decoder", TABLE)
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
@given(data=st.binary(max_size=200), where=st.floats(0, 1), cut=st.integers(0, 40))
def test_any_bytes_within_sound_ones_are_a_declared_error_or_an_answer(
    decoder: Decoder, data: bytes, where: float, cut: int
) -> None:
    golden = decoder.golden[len(data) % len(decoder.golden)]
    at = int(where * len(golden))
    for whole in (data, golden[:at] + data + golden[at + cut :]):
        for each in both(decoder, whole):
            attempt(decoder, each)


PRODUCT = ("broker", "cli", "client", "proto", "runtime", "spark_jobs")
DECODES = re.compile(
    r"json\.loads?\(|json\.decode\(|_DECODER\.|tomllib\.loads\(|\.unpack(_from)?\(|iter_unpack\("
    r"|FromString\(|\bdecompress\(|DefaultRecordBatch\(|b64decode\(|from_bytes\("
)
ELSEWHERE = {
    "strandline_broker.core.groups.consumer.subscription": "a hash: every input has an answer",
    "strandline_proto.partitioner": "a hash: every input has an answer",
    "strandline_spark.sink.batches": "a hash: every input has an answer",
    "strandline_spark.spark.session": "asks the Java that it starts",
    "strandline_spark.delta_log.held_files": "entries of the log that `table_log` has read",
    "strandline_spark.delta_log.file_index": "entries of the log that `table_log` has read",
    "strandline_spark.delta_log.checkpoints": "a hint: without it a checkpoint is due",
    "strandline_spark.maintenance.removals": "a changed entry is refused, with one error",
    "strandline_spark.gold.noted_rows": "a note: a damaged one counts as none",
    "strandline_spark.state.noted_keys": "a note: a damaged one counts as none",
    "strandline_spark.silver.object_rows": "text between the driver and the tasks of one job",
    "strandline_spark.silver.range_output": "text between the driver and the tasks of one job",
    "strandline_spark.catalog": "the schema that `table_log` has read",
    "strandline_spark.gold.silver": "the schema that `table_log` has read",
    "strandline_spark.gold.table": "the schema that delta-rs has read",
    "strandline_spark.parsing.strptime": "the names of months",
    "strandline_spark.gold.identity": "the plan that Spark has analysed",
    "strandline_spark.silver.tables": "the schema that delta-rs has read",
    "strandline_spark.source.table_options": "metadata that this module wrote into the catalog",
    "strandline_broker.kafka.connection": "the length of a frame; test_fuzz.py sends any",
    "strandline_broker.rpc.records.range_frames": "a length; `proto.range_frames` reads the rest",
    "strandline_spark.cluster.range_streams": "two lengths; `proto.range_frames` reads the rest",
    "strandline_cli.cluster.reach": "two numbers of an answer whose length is checked",
    "strandline_spark.state.table": "the schema that delta-rs has read",
    "strandline_spark.parsing.parts.json_parts": "`spark.parsing.json_parts` calls it",
    "strandline_spark.parsing.avro.schemas": "`spark.parsing.avro_schema` calls it",
    "strandline_spark.parsing.avro.nested": "`spark.parsing.avro` calls it",
    "strandline_spark.parsing.avro.columns": "a schema that `spark.parsing.avro_schema` checks",
    "strandline_cli.nemesis.compose": "asks the Docker that it starts",
    "strandline_cli.nemesis.server": "a file of the run, which this machine writes",
    "strandline_cli.nemesis.workload_process": "lines of the process that it starts",
    "strandline_broker.rpc.records.fetch_codec": "protobuf, whose failure refuses the request",
}
"""Modules that decode and are in no table, and why."""


def test_no_module_that_decodes_is_left_out() -> None:
    known = set(ELSEWHERE)
    for table in TABLES:
        for node in ast.walk(ast.parse(inspect.getsource(table))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                known |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    root = Path(__file__).parents[2]
    decoding = {
        ".".join(path.relative_to(root / folder).with_suffix("").parts)
        for folder in PRODUCT
        for path in (root / folder).rglob("*.py")
        if not path.stem.endswith("_pb2") and DECODES.search(path.read_text())
    }
    assert decoding - known == set(), "give them a line in tests/support/decoders_of_*.py"
    assert set(ELSEWHERE) - decoding == set(), "these decode nothing any more"
