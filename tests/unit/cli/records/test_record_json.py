"""Records as lines of JSON, whatever bytes they hold."""

import json
from dataclasses import dataclass, field

from strandline_cli.records.record_json import json_line


@dataclass(frozen=True)
class _Record:
    topic: str = "t"
    partition: int = 1
    offset: int = 2
    timestamp: int = 3
    leader_epoch: int = 4
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def test_text_is_given_as_text_and_null_as_null() -> None:
    line = json_line(_Record(key=None, value="naïve\n".encode()))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "leader_epoch": 4,
        "timestamp": 3,
        "key": None,
        "value": "naïve\n",
        "headers": [],
    }


def test_bytes_that_are_no_text_are_given_in_base64() -> None:
    document = json.loads(json_line(_Record(key=b"\xff", headers=[("h", b"\xfe"), ("n", None)])))
    assert document["key"] is None
    assert document["key_base64"] == "/w=="
    assert document["headers"] == [
        {"name": "h", "value": None, "value_base64": "/g=="},
        {"name": "n", "value": None},
    ]
