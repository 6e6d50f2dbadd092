"""Lines of the combined format as servers write them, read by the pipeline that ships."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_spark.parsing import make_parser
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.pipelines import text_of
from support.parsing import outcomes

PARSER = make_parser(parse_pipeline(text_of("access"), "/srv/access.toml").parse)
NOTHING = dict.fromkeys(("method", "path", "protocol", "malformed"))


def row_of(request: str, *, who: str = "- -", end: str = '200 5 "-" "curl/8.5"') -> dict[str, Any]:
    line = f'10.0.0.1 {who} [20/May/2015:12:05:17 +0200] "{request}" {end}'
    ((kind, *rest),) = outcomes(PARSER, [line])
    assert kind == "good", rest
    row: dict[str, Any] = rest[0]
    return row


def request_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in NOTHING}


@pytest.mark.parametrize(
    ("request_line", "method", "path", "protocol"),
    [
        ("GET / HTTP/1.1", "GET", "/", "HTTP/1.1"),
        ("get /a?b=%22 HTTP/1.0", "get", "/a?b=%22", "HTTP/1.0"),
        ("M-SEARCH * HTTP/1.1", "M-SEARCH", "*", "HTTP/1.1"),
        ("GET /old", "GET", "/old", None),
    ],
)
def test_a_request_is_method_path_and_protocol(
    request_line: str, method: str, path: str, protocol: str | None
) -> None:
    wanted = {"method": method, "path": path, "protocol": protocol, "malformed": None}
    assert request_of(row_of(request_line)) == wanted


@pytest.mark.parametrize("request_line", ["GET", r"\x16\x03\x01 \x02", r"say\"hello\""])
def test_what_is_no_request_is_kept_as_it_came(request_line: str) -> None:
    assert request_of(row_of(request_line)) == NOTHING | {"malformed": request_line}


@pytest.mark.parametrize("request_line", ["-", ""])
def test_a_client_that_sent_nothing_has_no_request(request_line: str) -> None:
    assert request_of(row_of(request_line, end='408 - "-" "-"')) == NOTHING


def test_dashes_are_null_and_quotes_may_be_escaped() -> None:
    row = row_of("GET / HTTP/1.1", who="- -", end='304 - "-" "-"\r')
    names = ("ident", "user", "bytes", "referrer", "agent")
    assert [row[name] for name in names] == [None] * len(names)
    row = row_of("GET / HTTP/1.1", who="- Jo Doe", end=r'200 7 "http://x/\"y\"" "a \"b\" c"')
    assert (row["user"], row["referrer"], row["agent"]) == (
        "Jo Doe",
        r"http://x/\"y\"",
        r"a \"b\" c",
    )
