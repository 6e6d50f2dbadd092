"""The answers that pages get: streams, instants, refusals, and the protection of the user."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import msgspec
import pytest

from strandline_console.answers import Trace
from strandline_console.messages import MESSAGES_VERSION
from strandline_console.recording.entities import new_entity
from strandline_console.recording.recorder import Recorder
from strandline_console.serving.app import Facts, RecordingRoutes, build_app
from strandline_console.serving.pulse import ROW, Pulse
from strandline_console.serving.security import Actions, is_loopback
from support.asgi import AsgiClient
from support.hand_clock import HandClock


class Console:
    """An application over a recorder that a test fills; the pulse beats when the test says so."""

    def __init__(self, *, loopback: bool = True, host: str = "127.0.0.1:8080") -> None:
        self.clock = HandClock()
        self.recorder = Recorder("run", lambda: int(self.clock.now_s * 1000))
        self.pulse = Pulse(self.recorder, self.clock.monotonic)
        actions = Actions("secret", read_only_reason=None if loopback else "it is read-only")
        facts = Facts(bootstrap="b1:1")
        routes = RecordingRoutes(self.pulse, facts, actions).routes()
        self.client = AsgiClient(build_app(routes, loopback=loopback), host)

    def replica(self, number: int = 0, **fields: Any) -> None:
        known = {"topic": "t", "partition": number, "broker": 1}
        self.recorder.live.set("replicas", f"t:{number}@1", {**known, **fields})

    def beat(self) -> None:
        self.clock.now_s += 1
        self.pulse.beat()


async def test_a_stream_begins_with_a_keyframe_and_goes_on_with_changes() -> None:
    console = Console()
    console.replica(log_end=1)
    console.beat()
    async with console.client.stream("/api/stream") as events:
        kind, event_id, data = await events.next()
        assert (kind, event_id) == ("keyframe", "run-1")
        assert data["state"]["replicas"]["t:0@1"]["log_end"] == 1
        assert events.answer.headers["content-type"].startswith("text/event-stream")
        console.replica(log_end=2)
        console.beat()
        kind, event_id, data = await events.next()
        assert (kind, event_id) == ("delta", "run-2")
        assert data["changed"] == {"replicas": {"t:0@1": {"log_end": 2}}}


async def test_a_stream_is_resumed_behind_the_last_event() -> None:
    console = Console()
    for end in (1, 2, 3):
        console.replica(log_end=end)
        console.beat()
    async with console.client.stream("/api/stream", last_event_id="run-1") as events:
        found = [await events.next() for _ in range(2)]
    assert [(kind, event_id) for kind, event_id, _ in found] == [
        ("delta", "run-2"),
        ("delta", "run-3"),
    ]
    assert found[1][2]["changed"]["replicas"]["t:0@1"] == {"log_end": 3}


@pytest.mark.parametrize(
    "last", ["other-1", "run-9", "run-", "run-x", "run--1", "", "run-" + "9" * 99]
)
async def test_a_stream_that_cannot_be_resumed_begins_with_a_keyframe(last: str) -> None:
    console = Console()
    console.beat()
    async with console.client.stream("/api/stream", last_event_id=last) as events:
        assert (await events.next())[:2] == ("keyframe", "run-1")


async def test_a_slow_browser_gets_a_keyframe_and_no_queue() -> None:
    console = Console()
    console.replica(log_end=0)
    console.beat()
    async with console.client.stream("/api/stream") as events:
        assert (await events.next())[0] == "keyframe"
        for end in range(1, 3 * ROW):  # the test reads nothing meanwhile
            console.replica(log_end=end)
            console.beat()
        kind, _, data = await events.next()
        assert kind == "keyframe"
        assert data["state"]["replicas"]["t:0@1"]["log_end"] == 3 * ROW - 1


async def test_frames_outside_the_scope_are_not_sent() -> None:
    console = Console()
    console.replica(0, log_end=1)
    console.replica(1, log_end=1)
    console.beat()
    async with console.client.stream("/api/stream?partition=t:1") as events:
        assert list((await events.next())[2]["state"]["replicas"]) == ["t:1@1"]
        console.replica(0, log_end=2)
        console.beat()
        console.replica(1, log_end=3)
        console.beat()
        assert (await events.next())[2]["changed"] == {"replicas": {"t:1@1": {"log_end": 3}}}


async def test_a_window_that_moves_is_a_keyframe() -> None:
    console = Console()
    console.replica(5, log_end=1)
    console.replica(6, log_end=1)
    console.beat()
    async with console.client.stream("/api/stream?count=1") as events:
        assert list((await events.next())[2]["state"]["replicas"]) == ["t:5@1"]
        console.replica(0, log_end=1)
        console.beat()
        kind, _, data = await events.next()
        assert (kind, list(data["state"]["replicas"])) == ("keyframe", ["t:0@1"])


async def test_any_instant_is_there() -> None:
    console = Console()
    for end in (1, 2, 3):
        console.replica(log_end=end)
        console.beat()
    answer = (await console.client.get("/api/at?instant=1002000")).json
    assert answer["instant"] == {
        "frame": 2,
        "at_ms": 1_002_000,
        "oldest_ms": 1_000_000,
        "newest_ms": 1_003_000,
    }
    assert answer["state"]["replicas"]["t:0@1"]["log_end"] == 2
    assert (await console.client.get("/api/at?frame=1")).json["instant"]["frame"] == 1
    assert (await console.client.get("/api/at")).json["instant"]["frame"] == 3
    deltas = (await console.client.get("/api/deltas?after=1&limit=1")).json
    assert ([d["frame"] for d in deltas["deltas"]], deltas["more"]) == ([2], True)


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("/api/at?instant=yesterday", "instant"),
        ("/api/at?instant=1&frame=1", "give one"),
        ("/api/at?frame=-1", "frame"),
        ("/api/at?first=" + "9" * 400, "first"),
        ("/api/stream?count=0", "count"),
        ("/api/stream?count=501", "500"),
        ("/api/stream?" + "&".join(["partition=a-1"] * 65), "64"),
        ("/api/deltas", "after is missing"),
        ("/api/deltas?after=99", "not all kept"),
        ("/api/timeline?limit=0", "limit"),
        ("/api/lag", "group is missing"),
        ("/api/why?topic=t&partition=0", "broker is missing"),
        ("/api/why?topic=t&partition=0&broker=\u0663", "broker"),
        ("/api/unknown", "there is no GET /api/unknown"),
    ],
)
async def test_a_wrong_request_is_a_sentence(target: str, word: str) -> None:
    console = Console()
    from urllib.parse import quote

    answer = await console.client.get(quote(target, safe="/?&="))
    assert 400 <= answer.status < 500
    assert word in answer.json["error"]


async def test_every_answer_has_the_policy() -> None:
    console = Console()
    for target in ("/", "/api/meta", "/api/unknown", "/nothing"):
        headers = (await console.client.get(target)).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in headers["content-security-policy"]


async def test_a_selection_is_a_file_that_replays_without_a_server() -> None:
    console = Console()
    for end in (1, 2, 3, 4):
        console.replica(log_end=end)
        console.recorder.live.event("topic", f"</script><script>alert({end})</script><!--")
        console.beat()
    answer = await console.client.get("/api/trace?from=1002000&to=1003000")
    assert answer.headers["content-disposition"].startswith("attachment")
    page = answer.body.decode()
    found = re.search(r'id="strandline-trace">([^<]*)</script>', page)
    assert found is not None
    trace = msgspec.json.decode(found[1], type=Trace)
    assert (trace.version, trace.from_ms, trace.to_ms) == (MESSAGES_VERSION, 1_002_000, 1_003_000)
    assert trace.keyframe.state.replicas["t:0@1"].log_end == 2
    assert [delta.frame for delta in trace.deltas] == [3]
    assert trace.events[0].sentence == "</script><script>alert(3)</script><!--"
    assert "alert(3)</script>" not in page
    assert not re.search(
        r'(src|href)="', page.partition("<style>")[0] + page.rpartition("<script>")[0][-200:]
    )
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for text in (*scripts, style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page
    assert len(scripts) == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [("from=5&to=4", 400), ("from=1", 400), ("from=1&to=2", 410), ("from=a&to=2", 400)],
)
async def test_a_selection_that_is_not_kept_is_refused(query: str, status: int) -> None:
    console = Console()
    console.beat()
    answer = await console.client.get(f"/api/trace?{query}")
    assert (answer.status, list(answer.json)) == (status, ["error"])


async def test_the_page_and_its_files_are_served() -> None:
    console = Console()
    page = await console.client.get("/")
    assert page.status == 200
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.body.decode()):
        assert (await console.client.get("/" + name)).status == 200
    assert (await console.client.get("/../main.py")).status == 404


async def test_hostile_names_leave_as_json_alone() -> None:
    console = Console()
    console.recorder.live.event("topic", "<script>alert(1)</script>\r\ndata: x", topic="<b>\n\n")
    console.beat()
    async with console.client.stream("/api/stream?q=%3Cscript%3E", last_event_id="run-0") as events:
        kind, _, data = await events.next()
    assert kind == "delta"
    assert data["events"][0]["sentence"] == "<script>alert(1)</script>\r\ndata: x"
    answer = await console.client.get("/api/timeline")
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "10.0.0.1", "", "[::2]:80"])
async def test_a_name_that_is_not_loopbacks_is_refused(host: str) -> None:
    answer = await Console(host=host).client.get("/api/meta")
    assert answer.status == 421


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8080", "LOCALHOST"])
async def test_loopbacks_names_are_answered(host: str) -> None:
    assert (await Console(host=host).client.get("/api/meta")).status == 200


async def test_the_console_beyond_loopback_says_that_it_is_read_only() -> None:
    meta = (await Console(loopback=False, host="any").client.get("/api/meta")).json
    assert (meta["read_only"], meta["read_only_reason"]) == (True, "it is read-only")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.1.1.1", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_why_a_broker_is_not_in_the_isr() -> None:
    console = Console()
    for name, kind, node in (("controller", "controller", 100), ("broker-1", "broker", 1)):
        known = {"id": name, "kind": kind, "node_id": node, "state": "watching"}
        console.recorder.live.set("servers", name, new_entity("servers", known))
    decided = {"topic": "t", "partition": 0, "replicas": [1, 3], "isr": [1], "leader": 1}
    console.recorder.live.set("partitions", "t:0", {**decided, "min_isr": 1})
    fetcher = {"broker": 3, "fetch_offset": 40, "last_caught_up_ms": None, "in_maximal_isr": False}
    console.replica(
        role="leader", leader_epoch=2, log_end=100, high_watermark=90, fetchers=[fetcher]
    )
    console.recorder.live.event(
        "isr",
        "the ISR of t:0 is [1], was [1, 3]",
        topic="t",
        partition=0,
        broker=3,
        details={"left": "[3]", "joined": "[]"},
    )
    console.beat()
    answer = (await console.client.get("/api/why?topic=t&partition=0&broker=3")).json
    assert answer == {
        "in_isr": False,
        "sentence": "Broker 3 is not in the ISR of t:0: it has fetched up to 40, which is 60"
        " records behind the log end 100 of leader 1. It left after this event: the ISR of t:0 is"
        " [1], was [1, 3].",
    }
    answer = (await console.client.get("/api/why?topic=t&partition=0&broker=1")).json
    assert answer["in_isr"] is True
    answer = (await console.client.get("/api/why?topic=x&partition=0&broker=1")).json
    assert answer["in_isr"] is None
