"""Lines of the combined format as servers write them, read by the pipeline that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline_spark.examples import text_of
from strandline_spark.parsing import make_parser
from strandline_spark.pipeline.config import parse_pipeline
from support.parsing import outcomes

PARSER = make_parser(parse_pipeline(text_of("access"), "/srv/access.toml").parse)
LOG = Path(__file__).resolve().parents[4] / "shared" / "data" / "access.log"
NOTHING = dict.fromkeys(("method", "path", "protocol", "malformed"))


def row_of(
    request: str = "GET / HTTP/1.1",
    *,
    client: str = "10.0.0.1",
    who: str = "- -",
    end: str = '200 5 "-" "curl/8.5"',
) -> dict[str, Any]:
    line = f'{client} {who} [20/May/2015:12:05:17 +0200] "{request}" {end}'
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
        ("GET /a b/c d.html HTTP/1.1", "GET", "/a b/c d.html", "HTTP/1.1"),
        ("GET / HTTP/2.0", "GET", "/", "HTTP/2.0"),
        ("POST /x HTTP/3", "POST", "/x", "HTTP/3"),
        ("PRI * HTTP/2.0", "PRI", "*", "HTTP/2.0"),
        ("CONNECT example.com:443 HTTP/1.1", "CONNECT", "example.com:443", "HTTP/1.1"),
        ("GET http://example.com/ HTTP/1.1", "GET", "http://example.com/", "HTTP/1.1"),
        ("GET  /x  HTTP/1.1 ", "GET", "/x", "HTTP/1.1"),
        ("GET /x HTTP/1.1 HTTP/1.1", "GET", "/x HTTP/1.1", "HTTP/1.1"),
        (r"GET /a\"b c\" HTTP/1.1", "GET", r"/a\"b c\"", "HTTP/1.1"),
        (r"GET /\" 200 1 \"-\" \"- HTTP/1.1", "GET", r"/\" 200 1 \"-\" \"-", "HTTP/1.1"),
        ('GET /?q="a b" HTTP/1.1', "GET", '/?q="a b"', "HTTP/1.1"),
    ],
)
def test_a_request_is_method_path_and_protocol(
    request_line: str, method: str, path: str, protocol: str | None
) -> None:
    wanted = {"method": method, "path": path, "protocol": protocol, "malformed": None}
    assert request_of(row_of(request_line)) == wanted


@pytest.mark.parametrize(
    "request_line",
    [
        "GET",
        r"\x16\x03\x01 \x02",
        r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03 /x HTTP",
        r"say\"hello\"",
        r"\x03\x00\x00/*\xE0\x00\x00Cookie: mstshash=Administr",
        "EHLO mail.example.com",
        "MAIL FROM:<a@example.com>",
        "SSH-2.0-Go",
        "OPTIONS / RTSP/1.0",
        "OPTIONS sip:nm SIP/2.0",
        "GET  HTTP/1.1",
        "GET /a b",
        "quit",
    ],
)
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


@pytest.mark.parametrize(
    ("written", "client", "proxies"),
    [
        ("2001:db8::1", "2001:db8::1", None),
        ("fe80::1%eth0", "fe80::1%eth0", None),
        ("[2001:db8::1]:443", "[2001:db8::1]:443", None),
        ("host.example.com", "host.example.com", None),
        ("-", None, None),
        ("203.0.113.7, 70.41.3.18", "203.0.113.7", "70.41.3.18"),
        ("203.0.113.7,70.41.3.18", "203.0.113.7", "70.41.3.18"),
        ("2001:db8::1, 10.0.0.2, unknown", "2001:db8::1", "10.0.0.2, unknown"),
    ],
)
@pytest.mark.parametrize(
    ("who", "ident", "user"),
    [
        ("- -", None, None),
        ("- Jo Ann Doe", None, "Jo Ann Doe"),
        ("id a [b]", "id", "a [b]"),
        ('- ""', None, None),
        ("- ", None, None),
    ],
)
def test_a_client_may_come_through_proxies_and_a_user_have_blanks(
    written: str, client: str | None, proxies: str | None, who: str, ident: str, user: str
) -> None:
    row = row_of(client=written, who=who)
    names = ("client", "proxies", "ident", "user", "path", "status", "bytes")
    assert [row[name] for name in names] == [client, proxies, ident, user, "/", 200, 5]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", " \n", "\n\n"])
@pytest.mark.parametrize("agent", ["curl/8.5", 'a "b" c', r"a \"b\" \\"])
@pytest.mark.parametrize(
    ("behind", "forwarded"),
    [
        ("", None),
        (' "-"', None),
        (' "203.0.113.7"', "203.0.113.7"),
        (' "203.0.113.7, 2001:db8::1"', "203.0.113.7, 2001:db8::1"),
    ],
)
def test_a_line_may_end_in_addresses_and_in_a_line_end(
    end: str, agent: str, behind: str, forwarded: str | None
) -> None:
    row = row_of(end=f'200 - "http://x/" "{agent}"{behind}{end}')
    names = ("bytes", "referrer", "agent", "forwarded")
    assert [row[name] for name in names] == [None, "http://x/", agent, forwarded]


@pytest.mark.parametrize(
    "line",
    [
        '10.0.0.1 - - [20/May/2015:12:05:17 +0200] "GET / HTTP/1.1" 200 5 "-" "curl/8.5',
        '10.0.0.1 - - [20/May/2015:12:05:17 +0200] "GET / HTTP/1.1" 200',
        '10.0.0.1 - - [20/May/2015:12:05:17 +0200] "GET / HTTP/1.1" 200 5 "-" "x"\n' * 2,
        "",
        "\n",
    ],
)
def test_what_is_not_one_whole_line_is_quarantined(line: str) -> None:
    ((state, reason, _),) = outcomes(PARSER, [line])
    assert (state, reason) == ("bad", "no match")


@pytest.mark.skipif(not LOG.is_file(), reason="no folder of shared data")
def test_of_ten_thousand_real_lines_the_one_that_is_cut_off_is_quarantined() -> None:
    lines = LOG.read_text().splitlines(keepends=True)
    for ended in (lines, [line.rstrip("\n") for line in lines]):
        found = outcomes(PARSER, ended)
        bad = [line for line, one in zip(lines, found, strict=True) if one[0] == "bad"]
        assert [line.rstrip("\n").endswith('"') for line in bad] == [False]
        rows = [one[1] for one in found if one[0] == "good"]
        assert len(rows) == len(lines) - 1
        assert all(row["method"] and row["path"] and row["malformed"] is None for row in rows)
        assert all(row["user"] is row["proxies"] is row["forwarded"] is None for row in rows)
