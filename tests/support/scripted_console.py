"""A console without a cluster: it serves the pages and frames that a test made by hand, in the JSON
of strandline_console.messages.
"""

import contextlib
import json
import threading
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import strandline_console
from strandline_console.messages import State, TimelineEvent
from strandline_console.recording.entities import order_on_board
from strandline_console.serving.security import POLICY

STATIC = Path(strandline_console.__file__).parent / "static"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_MAPS = ("servers", "partitions", "replicas", "groups", "faults", "pipelines")
Json = dict[str, Any]


@dataclass(slots=True)
class Frame:
    """One frame of the recording: the whole state after it, and its delta."""

    at_ms: int
    state: Json
    delta: Json


@dataclass
class ScriptedConsole:
    """`change` makes a frame; every open stream gets it."""

    state: State
    at_ms: int
    frames: list[Frame] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    answers: dict[str, Json] = field(default_factory=dict)
    """Answers of other paths, for instance `/api/tables`."""
    posts: list[tuple[str, str, Json]] = field(default_factory=list)
    """Path, authorization and body of each action."""
    news: threading.Condition = field(default_factory=threading.Condition)
    server: ThreadingHTTPServer | None = None

    def __post_init__(self) -> None:
        self.frames.append(Frame(self.at_ms, plain(self.state), {}))

    def change(self, at_ms: int, *events: TimelineEvent) -> None:
        """Records the state as it is now, as the frame of `at_ms`."""
        with self.news:
            number = len(self.frames)
            before, now = self.frames[-1].state, plain(self.state)
            found = [asdict(one) | {"frame": number, "at_ms": at_ms} for one in events]
            for one in found:
                one["id"] = len(self.events)
                self.events.append(one)
            delta = difference(before, now) | {"frame": number, "at_ms": at_ms, "events": found}
            self.frames.append(Frame(at_ms, now, delta))
            self.news.notify_all()

    @property
    def address(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "ScriptedConsole":
        console = self

        class Handler(_Handler):
            script = console

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.server is not None
        with self.news:
            self.frames.append(Frame(-1, {}, {}))
            self.news.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def keyframe(self, number: int, query: dict[str, list[str]]) -> Json:
        with self.news:
            frames = [frame for frame in self.frames if frame.at_ms >= 0]
        number = max(0, min(len(frames) - 1, number))
        state, window = scoped(frames[number].state, query)
        instant = {
            "frame": number,
            "at_ms": frames[number].at_ms,
            "oldest_ms": frames[0].at_ms,
            "newest_ms": frames[-1].at_ms,
        }
        return {"run": "script", "instant": instant, "window": window, "state": state}

    def number_at(self, instant: int) -> int:
        with self.news:
            found = [n for n, frame in enumerate(self.frames) if 0 <= frame.at_ms <= instant]
        return found[-1] if found else 0


def plain(state: State) -> Json:
    return json.loads(json.dumps(asdict(state)))  # type: ignore[no-any-return]


def difference(before: Json, now: Json) -> Json:
    """`changed` and `removed` of a delta, and its summary."""
    changed: dict[str, Json] = {}
    removed: dict[str, list[str]] = {}
    for name in _MAPS:
        for key, entity in now[name].items():
            old = before[name].get(key, {})
            if fields := {k: v for k, v in entity.items() if k not in old or old[k] != v}:
                changed.setdefault(name, {})[key] = fields
        if gone := [key for key in before[name] if key not in now[name]]:
            removed[name] = gone
    if now["workload"] != before["workload"]:
        changed["workload"] = {"": now["workload"]}
    summary = now["summary"] if now["summary"] != before["summary"] else None
    return {"summary": summary, "changed": changed, "removed": removed}


def scoped(state: Json, query: dict[str, list[str]]) -> tuple[Json, Json]:
    """The part of a state that a SCOPE selects, and its window."""
    names = sorted(state["partitions"], key=order_on_board)
    q = query.get("q", [""])[0].lower()
    names = [name for name in names if q in state["partitions"][name]["topic"].lower()]
    window = {"first": 0, "count": len(names), "total": len(names)}
    if "partition" in query:
        names = query["partition"]
    elif "first" in query:
        first, count = int(query["first"][0]), int(query["count"][0])
        names = names[first : first + count]
        window |= {"first": first, "count": len(names)}
    kept = set(names)
    replicas = {k: v for k, v in state["replicas"].items() if k.split("@")[0] in kept}
    partitions = {k: v for k, v in state["partitions"].items() if k in kept}
    return state | {"partitions": partitions, "replicas": replicas}, window


class _Handler(BaseHTTPRequestHandler):
    script: ScriptedConsole

    def log_message(self, format: str, *args: object) -> None:
        """Writes nothing."""

    def handle(self) -> None:
        """A page that has gone away ends its requests."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == "/api/stream":
            self._stream(query)
        elif url.path.startswith("/api/"):
            self._answer(self._found(url.path, query))
        else:
            self._file("index.html" if url.path == "/" else url.path.removeprefix("/"))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.posts.append((self.path, self.headers["Authorization"], body))
        self._answer(self.script.answers.get(f"POST {self.path}", {}))

    def _found(self, path: str, query: dict[str, list[str]]) -> Json | None:
        script = self.script
        if path == "/api/at":
            frame = query.get("frame")
            number = int(frame[0]) if frame else script.number_at(int(query["instant"][0]))
            return script.keyframe(number, query)
        if path == "/api/deltas":
            after, limit = int(query["after"][0]), int(query["limit"][0])
            found = [f.delta for f in script.frames[after + 1 : after + 1 + limit] if f.at_ms >= 0]
            return {"run": "script", "deltas": found, "more": False}
        if path == "/api/timeline":
            ends = {"oldest_ms": script.frames[0].at_ms, "newest_ms": script.frames[-1].at_ms}
            return ends | {"run": "script", "events": list(script.events), "more": False}
        if path == "/api/lag":
            return self._lag(query["group"][0])
        return script.answers.get(path)

    def _lag(self, group: str) -> Json:
        frames = self.script.frames
        first = frames[0].at_ms
        lags = []
        for at in range(first, frames[-1].at_ms + 1, 1000):
            state = frames[self.script.number_at(at)].state
            lags.append(state["groups"].get(group, {}).get("lag"))
        return {"group": group, "first_ms": first, "step_ms": 1000, "lags": lags}

    def _stream(self, query: dict[str, list[str]]) -> None:
        self._head("text/event-stream")
        script = self.script
        number = len(script.frames) - 1
        self._event("keyframe", script.keyframe(number, query))
        while True:
            with script.news:
                while len(script.frames) == number + 1:
                    script.news.wait()
                fresh = script.frames[number + 1 :]
            for frame in fresh:
                if frame.at_ms < 0:
                    return
                number += 1
                self._event("delta", frame.delta)

    def _event(self, name: str, data: Json) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def _answer(self, found: Json | None) -> None:
        if found is None:
            found = {"error": f"{self.path} is not in the script."}
            self._head("application/json", 404)
        else:
            self._head("application/json")
        self.wfile.write(json.dumps(found).encode())

    def _file(self, name: str) -> None:
        path = STATIC / name
        if not path.is_file():
            self._head("text/plain", 404)
            return
        self._head(_TYPES.get(path.suffix, "image/svg+xml"))
        self.wfile.write(path.read_bytes())

    def _head(self, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
