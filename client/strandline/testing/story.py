"""The events in a cluster during a test: elections, changes of ISRs and brokers, warnings.

A thread reads the controller's Watch stream. It keeps the newest events only. Warnings come from
the servers' logs, when a test has failed.
"""

import json
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from strandline_proto.v1 import watch_pb2
from strandline_proto.v1.services_pb2_grpc import WatchServiceStub

EVENTS_MAX: Final = 2000
SHOWN_MAX: Final = 200
"""Lines of one report; the newest."""
LINE_MAX: Final = 300
LOG_BYTES_MAX: Final = 256 << 10
"""The end of each log that is searched for warnings."""
SETTLE_S: Final = 5.0
"""Limit of the wait for the last events. A stream has a frame each second at least."""
_AGAIN_S: Final = 0.2
_POLL_S: Final = 0.02
_LEVELS: Final = ("warning", "error", "critical")


class _Event(NamedTuple):
    at: float
    text: str
    topic: str = ""


def is_internal(topic: str) -> bool:
    """True for Kafka's internal topics."""
    return topic.startswith("__")


_stories: "list[Story]" = []
"""The stories of this process that are open, or ended during this test."""


class Story:
    """The events of one cluster. `begin` starts a new test; `lines` has all since then."""

    def __init__(
        self,
        name: str,
        controller: Callable[[], str | None],
        logs: Mapping[str, Path] | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`controller` returns the controller's address for gRPC, or None if it is unknown. `logs`
        has the servers' log files by name.
        """
        self.name = name
        self.logs = dict(logs or {})
        self._controller = controller
        self._now = now
        self._lock = threading.Lock()
        self._events: deque[_Event] = deque(maxlen=EVENTS_MAX)
        self.is_hidden: Callable[[str], bool] = is_internal
        """True for a topic whose events are only counted."""
        self._sizes: dict[str, int] = {}
        self._told_until = 0.0
        self._is_closed = threading.Event()
        self._channel: grpc.Channel | None = None
        self._thread: threading.Thread | None = None
        self.begin()

    # A test.

    def begin(self) -> None:
        """Forget what happened before."""
        with self._lock:
            self._events.clear()
        self._sizes = {name: _size(path) for name, path in self.logs.items()}

    def note(self, text: str) -> None:
        """Add an event of the test itself, such as a fault."""
        self._add(self._now(), text)

    def settle(self, wait_s: float = SETTLE_S) -> None:
        """Wait for a frame that the controller builds from now on, if it has sent any before."""
        began, deadline = self._now(), time.monotonic() + wait_s
        while self._told_until > 0 and not self._is_closed.is_set():
            if self._told_until >= began or time.monotonic() >= deadline:
                return
            time.sleep(_POLL_S)

    def lines(self) -> list[str]:
        """The events since `begin` by time, each with the time of the server."""
        with self._lock:
            events = list(self._events)
        counted = Counter(each.topic for each in events if each.topic and self._hides(each))
        found = [(each.at, each.text) for each in events if not self._hides(each)]
        for name, path in self.logs.items():
            found += warnings_in(name, _end_of(path, self._sizes.get(name, 0)))
        found.sort(key=lambda each: each[0])
        shown = [f"{_clock(at)} {text}"[:LINE_MAX] for at, text in found[-SHOWN_MAX:]]
        if len(found) > SHOWN_MAX:
            shown.insert(0, f"({len(found) - SHOWN_MAX} earlier events are left out)")
        internal = sum(count for topic, count in counted.items() if is_internal(topic))
        if self._told_until == 0:
            shown.append("(the controller was not reached: elections and ISR changes are unknown)")
        if internal:
            shown.append(f"(and {internal} elections and ISR changes of internal topics)")
        return shown

    def _hides(self, event: "_Event") -> bool:
        return event.topic != "" and (is_internal(event.topic) or self.is_hidden(event.topic))

    def _add(self, at: float, text: str, topic: str = "") -> None:
        with self._lock:
            self._events.append(_Event(at, text, topic))

    # The stream.

    def start(self) -> None:
        """Watch on a thread until `close`."""
        self._thread = threading.Thread(target=self._watch, name="strandline-story", daemon=True)
        self._thread.start()
        _stories.append(self)

    def close(self) -> None:
        """End the thread. `lines` stays."""
        self._is_closed.set()
        if (channel := self._channel) is not None:
            channel.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        while not self._is_closed.is_set():
            address = self._controller()
            if address is not None:
                self._watch_one(address)
            self._is_closed.wait(_AGAIN_S)

    def _watch_one(self, address: str) -> None:
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(address, options=options) as channel:
            self._channel = channel
            if self._is_closed.is_set():
                return
            request = watch_pb2.WatchRequest(without_groups=True)
            try:
                for frame in WatchServiceStub(channel).Watch(request):
                    self.take(frame)
            except (grpc.RpcError, ValueError):  # the latter: the channel was closed meanwhile
                return
            finally:
                self._channel = None

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._is_closed.is_set()

    def take(self, frame: watch_pb2.WatchResponse) -> None:
        """Add the events of a frame."""
        for event in frame.events:
            if (text := sentence(event)) is not None:
                about = getattr(event, event.WhichOneof("what") or "", None)
                self._add(event.time_ms / 1000, text, getattr(about, "topic", ""))
        if frame.events_lost:
            self._add(frame.time_ms / 1000, f"{frame.events_lost} events were not reported")
        self._told_until = max(self._told_until, frame.time_ms / 1000)


def all_stories() -> list[Story]:
    """The clusters of this process that ran during this test."""
    return list(_stories)


def begin_all() -> None:
    """A new test begins."""
    _stories[:] = [each for each in _stories if not each.is_closed]
    for each in _stories:
        each.begin()


def sentence(event: watch_pb2.WatchEvent) -> str | None:
    """The event in words; None for one that tests do not ask for, such as a topic's creation."""
    match event.WhichOneof("what"):
        case "election":
            return _election(event.election)
        case "isr":
            at = event.isr
            words = f"ISR of {at.topic}:{at.partition} {_ids(at.former_isr)} -> {_ids(at.isr)}"
            return f"{words}, ELR {_ids(at.elr)}" if at.elr else words
        case "broker":
            kind = watch_pb2.BrokerEventKind.Name(event.broker.kind)
            did = kind.removeprefix("BROKER_EVENT_KIND_").lower().replace("_", " ")
            why = f": {event.broker.why}" if event.broker.why else ""
            return f"broker {event.broker.broker_id} {did}{why}"
        case "loss":
            lost = event.loss
            return (
                f"LOSS: broker {lost.broker_id} lost offsets {lost.start_offset} to"
                f" {lost.end_offset} of {lost.topic}:{lost.partition}"
            )
        case "controller":
            return f"the controller began epoch {event.controller.controller_epoch}"
        case _:
            return None


def _election(election: watch_pb2.ElectionEvent) -> str | None:
    if election.reason == watch_pb2.ELECTION_REASON_TOPIC_CREATED:
        return None
    place = f"{election.topic}:{election.partition}"
    reason = watch_pb2.ElectionReason.Name(election.reason)
    why = reason.removeprefix("ELECTION_REASON_").lower().replace("_", " ")
    about = f" (broker {election.broker_id})" if election.HasField("broker_id") else ""
    unclean = ", UNCLEAN" if election.unclean else ""
    former = f"broker {election.former_leader}" if election.HasField("former_leader") else "none"
    leader = f"broker {election.leader_id}" if election.HasField("leader_id") else "none"
    epoch = f"epoch {election.leader_epoch}"
    return f"leader of {place} {former} -> {leader}, {epoch}{unclean}: {why}{about}"


def _ids(ids: Iterable[int]) -> str:
    return "[" + ", ".join(map(str, ids)) + "]"


def warnings_in(server: str, text: str) -> list[tuple[float, str]]:
    """The warnings and errors in the log of a server, each with its time. The last time stands for
    a line without one, such as a traceback's.
    """
    found: list[tuple[float, str]] = []
    at, is_warning = 0.0, False
    for line in text.splitlines():
        stamp, level, rest = _parsed(line)
        if stamp is not None:
            at, is_warning = stamp, level in _LEVELS
        elif not line.startswith("strandline: stopping"):
            continue
        if is_warning or stamp is None:
            found.append((at, f"{server} {level or 'error'}: {rest}"))
    return found


def _parsed(line: str) -> tuple[float | None, str, str]:
    """Time, level and text of a line of either log format; the whole line if it is neither."""
    if line.startswith("{"):
        try:
            fields: dict[str, Any] = json.loads(line)
            stamp = _seconds(str(fields.pop("timestamp", "")))
            level, event = str(fields.pop("level", "")), str(fields.pop("event", ""))
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None, "", line
        more = " ".join(f"{name}={value}" for name, value in fields.items())
        return stamp, level, f"{event} {more}".strip()
    stamp_text, _, rest = line.partition(" ")
    level, _, said = rest.strip().partition(" ")
    stamp = _seconds(stamp_text)
    return (None, "", line) if stamp is None else (stamp, level, said.strip())


def _seconds(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):  # the latter two: a time that no clock has
        return None


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at * 1000) % 1000:03d}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _end_of(path: Path, start: int) -> str:
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start, size - LOG_BYTES_MAX))
            return log.read().decode(errors="replace")
    except OSError:
        return ""
