"""Decoders of what the controller remembers, of configurations, and of JSON on a disk."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import struct_pb2

from strandline.serialization import Avro, Json, Protobuf, Text
from strandline.testing.story import warnings_in
from strandline_broker.config.loading import (
    ConfigError,
    load_broker_config,
    load_controller_config,
)
from strandline_broker.core.controller.log import records, snapshot
from strandline_broker.core.controller.log.state import ControllerState
from strandline_cli.errors import CliError
from strandline_cli.planning.reassignment_plan import parse_plan
from strandline_cli.records import json_records
from strandline_local.cluster_files import read_cluster_file
from strandline_local.contexts import parse_contexts
from strandline_local.errors import ClusterError as LocalClusterError
from strandline_proto.ids import ControllerEpoch, TopicId
from strandline_spark.bronze.checkpoint import read_offset_log
from strandline_spark.bronze.commits import CommittedRange, from_metadata, to_metadata
from strandline_spark.cluster.find_cluster import find_bootstrap
from strandline_spark.cluster.offsets import parse_json, stream_from_json
from strandline_spark.delta_log.entries import LogError, infos_from
from strandline_spark.delta_log.table_log import TableLog
from strandline_spark.errors import OptionError, TableError
from strandline_spark.source.lag import reported
from strandline_spark.source.options import parse_options
from strandline_spark.source.positions import PositionFiles
from strandline_spark.spark.workers import understood
from support.decoders import ID, Decoder

if TYPE_CHECKING:
    from collections.abc import Callable


def _on_path(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """For those that read a real directory."""

    def call(data: bytes) -> Any:
        with TemporaryDirectory() as directory:
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            return read(path)

    return call


def _as_text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(data.decode("utf-8", "replace"))


def _state_of(table: Path) -> Any:
    state = TableLog(str(table)).snapshot()
    return state.id, state.schema, state.configuration, state.partition_columns


def _infos_of(table: Path) -> Any:
    return list(infos_from(str(table), 0))


def _restored(data: bytes) -> Any:
    state = ControllerState()
    snapshot.restore(state, data.split(b"\n"))
    return state


LISTENS: Final = b'listeners = "PLAINTEXT://h:1"\n[node]\nid = 1\n[log]\ndirs = "/d"\n'


TOML: Final = LISTENS + b'[controller.quorum.bootstrap]\nservers = ["h:1"]\n'


CLUSTER: Final = json.dumps(
    {
        "version": 1,
        "host": "h",
        "bootstrap": "h:1",
        "controller": {"port": 1, "config": {}},
        "brokers": [{"id": 1, "port": 2}],
        "broker_config": {},
    }
).encode()


PLAN: Final = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'


CONTEXTS: Final = b'{"version":1,"current":"a","contexts":{"a":{"bootstrap":"h:1"}}}'


RECORD: Final = b'{"key":"a","value_base64":"/w==","headers":[{"name":"h","value":"x"}]}'


SPARK_OFFSETS: Final = b'{"t":{"0":23,"1":-2}}'


CHECKPOINTED: Final = json.dumps(
    {"t": {"0": 5}, "@lineage": {"t": {"id": ID, "epochs": {"0": 1}, "starts": {"0": 2}}}}
).encode()


BEGUN: Final = '{"@lineage":{}}'


PROBED: Final = json.dumps(
    {
        "python": "3.11",
        "executable": "/usr/bin/python3",
        "package": "0.1.0",
        "missing": None,
        "file": "a",
        "unwritable": None,
    }
).encode()


POSITIONS: Final = b'{"format":1,"offsets":{"t":{"0":1}}}'


LINEAGE: Final = json.dumps(
    {"format": 1, "topic_ids": {"t": ID}, "epochs": {"t": {"0": [[0, 5]]}}}
).encode()


FIRST_ENTRY: Final = (
    b'{"commitInfo": {"timestamp": 1, "operation": "CREATE TABLE"}}\n'
    b'{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}\n'
    b'{"metaData": {"id": "a", "schemaString": "{\\"type\\": \\"struct\\", \\"fields\\":'
    b' [{\\"name\\": \\"a\\", \\"type\\": \\"long\\", \\"nullable\\": true, \\"metadata\\": {}}]}",'
    b' "partitionColumns": ["a"], "configuration": {"k": "v"}}}\n'
    b'{"txn": {"appId": "x", "version": 3}}\n'
)
COMMIT: Final = json.dumps(
    to_metadata("j", 3, [CommittedRange("t", ID, 0, 5, 9, rows=3, skipped=1, leader_epoch=2)])
).encode()


def _lineage(path: Path) -> Any:
    return PositionFiles(str(path).removesuffix(".epochs")).lineage()


def _controller_values() -> tuple[bytes, ...]:
    state = ControllerState()
    return (b"\n".join(snapshot.take(state).values()),)


def _records() -> tuple[bytes, ...]:
    return (
        records.encode(records.ControllerEpochRecord(epoch=ControllerEpoch(3))),
        records.encode(records.RemoveTopicRecord(topic_id=TopicId(bytes(16)))),
        records.encode(records.ConfigRecord(key="k", value="v")),
    )


LOG_LINES: Final = (
    b"2026-11-30T03:05:46.386307Z warning broker-2 the stream broke\nTraceback\n",
    b'{"timestamp":"2026-11-30T03:05:46Z","level":"error","event":"e","n":1}\n',
)


VALUE_SCHEMA: Final = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
}


DECODERS: Final = (
    Decoder("client.text", ("ä".encode(),), Text().deserialize, (ValueError,)),
    Decoder(
        "client.json", (b'{"a":[1,2]}',), Json(dict[str, list[int]]).deserialize, (ValueError,)
    ),
    Decoder("client.avro", (b"\x06\x02\x02x",), Avro(VALUE_SCHEMA).deserialize, (ValueError,)),
    Decoder(
        "client.protobuf",
        (struct_pb2.Value(string_value="v").SerializeToString(),),
        Protobuf(struct_pb2.Value).deserialize,
        (ValueError,),
    ),
    Decoder("testing.story", LOG_LINES, _as_text(lambda text: warnings_in("b", text))),
    Decoder("controller.records", _records(), records.decode, (ValueError,)),
    Decoder("controller.snapshot", _controller_values(), _restored, (ValueError, LookupError)),
    Decoder(
        "config.broker",
        (TOML,),
        _on_path("b.toml", lambda path: load_broker_config(str(path), {}, {})),
        (ConfigError,),
        positions=40,
    ),
    Decoder(
        "config.controller",
        (LISTENS,),
        _on_path("c.toml", lambda path: load_controller_config(str(path), {}, {})),
        (ConfigError,),
        positions=40,
    ),
    Decoder(
        "local.cluster_files",
        (CLUSTER,),
        _on_path("cluster.json", lambda path: read_cluster_file(path.parent)),
        (LocalClusterError,),
        positions=40,
    ),
    Decoder(
        "cli.reassignment_plan", (PLAN,), _as_text(lambda text: parse_plan(text, "x")), (CliError,)
    ),
    Decoder(
        "cli.contexts",
        (CONTEXTS,),
        _as_text(lambda text: parse_contexts(text, Path("/f"))),
        (LocalClusterError,),
    ),
    Decoder("cli.json_records", (RECORD,), json_records.JsonParser(), (CliError,)),
    Decoder(
        "spark.find_cluster",
        (CLUSTER,),
        _on_path("cluster.json", lambda path: find_bootstrap(None, str(path.parent), {})),
        (OptionError,),
        positions=40,
    ),
    Decoder(
        "spark.options",
        (SPARK_OFFSETS,),
        _as_text(
            lambda text: parse_options(
                {"bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": text}
            )
        ),
        (OptionError,),
    ),
    Decoder(
        "spark.options.assign",
        (b'{"t":[0,1]}',),
        _as_text(lambda text: parse_options({"bootstrap.servers": "h:1", "assign": text})),
        (OptionError,),
    ),
    Decoder(
        "spark.micro_batch",
        (b"v1\n{}\n" + CHECKPOINTED,),
        _on_path("offsets/3", lambda path: read_offset_log(str(path.parent.parent), 3)),
        (TableError,),
    ),
    Decoder(
        "spark.positions",
        (POSITIONS,),
        _on_path("p.json", lambda path: PositionFiles(str(path)).initial()),
        (OptionError,),
    ),
    Decoder(
        "spark.delta_log.state",
        (FIRST_ENTRY,),
        _on_path(f"_delta_log/{0:020}.json", lambda path: _state_of(path.parent.parent)),
        (LogError,),
    ),
    Decoder(
        "spark.delta_log.info",
        (FIRST_ENTRY,),
        _on_path(f"_delta_log/{0:020}.json", lambda path: _infos_of(path.parent.parent)),
        (LogError,),
    ),
    Decoder(
        "spark.commits", (COMMIT,), _as_text(lambda text: from_metadata(text, "x")), (TableError,)
    ),
    Decoder(
        "spark.offsets",
        (CHECKPOINTED, SPARK_OFFSETS),
        _as_text(lambda text: stream_from_json(parse_json(text))),
        (ValueError,),
    ),
    Decoder("spark.lag", (CHECKPOINTED,), _as_text(lambda text: reported(text, "{}"))),
    Decoder("spark.lag.latest", (SPARK_OFFSETS,), _as_text(lambda text: reported(BEGUN, text))),
    Decoder("spark.workers", (PROBED,), _as_text(understood)),
    Decoder("spark.lineage", (LINEAGE,), _on_path("p.json.epochs", _lineage), (OptionError,)),
)
