"""The sentences of the timeline: one for each kind of event that a server reports."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from strandline_console.messages import EventKind, Scalar
from strandline_console.recording.live import Live
from strandline_console.watching.broker_report import TRUNCATIONS
from strandline_proto.v1 import watch_pb2

_ELECTION_REASONS: Final = {
    watch_pb2.ELECTION_REASON_BROKER_FENCED: "broker {} was fenced",
    watch_pb2.ELECTION_REASON_CONTROLLED_SHUTDOWN: "broker {} shuts down",
    watch_pb2.ELECTION_REASON_BROKER_UNFENCED: "broker {} was unfenced",
    watch_pb2.ELECTION_REASON_REPLICA_OFFLINE: "the replica of broker {} is offline",
    watch_pb2.ELECTION_REASON_REASSIGNMENT: "the partition was reassigned",
    watch_pb2.ELECTION_REASON_PREFERRED: "the preferred leader is back",
    watch_pb2.ELECTION_REASON_REQUESTED: "an operator requested it",
    watch_pb2.ELECTION_REASON_CONFIGURATION: "the configuration changed",
    watch_pb2.ELECTION_REASON_BROKER_REMOVED: "broker {} was removed",
    watch_pb2.ELECTION_REASON_BROKER_REGISTERED: "broker {} registered",
    watch_pb2.ELECTION_REASON_CONTROLLER_START: "the controller started",
    watch_pb2.ELECTION_REASON_TOPIC_CREATED: "the topic was created",
}
_BROKER_EVENTS: Final = {
    watch_pb2.BROKER_EVENT_KIND_REGISTERED: "registered",
    watch_pb2.BROKER_EVENT_KIND_FENCED: "was fenced",
    watch_pb2.BROKER_EVENT_KIND_UNFENCED: "was unfenced",
    watch_pb2.BROKER_EVENT_KIND_CONTROLLED_SHUTDOWN: "began its controlled shutdown",
    watch_pb2.BROKER_EVENT_KIND_DECOMMISSIONING: "is to leave the cluster",
    watch_pb2.BROKER_EVENT_KIND_UNREGISTERED: "was unregistered",
    watch_pb2.BROKER_EVENT_KIND_OFFLINE_REPLICAS: "reported offline replicas",
    watch_pb2.BROKER_EVENT_KIND_STAYS: "stays in the cluster",
}
_STEPS: Final = {
    watch_pb2.REASSIGNMENT_STEP_BEGUN: "began",
    watch_pb2.REASSIGNMENT_STEP_CHANGED: "changed",
    watch_pb2.REASSIGNMENT_STEP_ENDED: "ended",
}
_TRUNCATION_REASONS: Final = {
    "diverged": "its history diverged from the leader's",
    "high_watermark": "replica.truncation=high-watermark",
    "before_leader_start": "the leader's log begins after its end",
    "damage": "its log was damaged",
}

Told = tuple[EventKind, str, dict[str, Any]]
"""Kind, sentence, further fields of the event."""


def tell(live: Live, server: str, event: watch_pb2.WatchEvent, *, is_late: bool) -> None:
    """Add an event of a server to the timeline. One of an unknown kind is left out."""
    name = event.WhichOneof("what")
    teller = None if name is None else _TELLERS.get(name)
    if name is None or teller is None:
        return
    kind, sentence, fields = teller(server, getattr(event, name))
    if is_late:  # it happened before the console watched
        fields.setdefault("details", {})["reported_late"] = True
    live.event(
        kind,
        sentence,
        server=server,
        server_time_ms=event.time_ms,
        sequence=event.number,
        **fields,
    )


def _place(event: Any) -> dict[str, Any]:
    return {"topic": event.topic, "partition": event.partition}


def _ids(ids: Iterable[int]) -> str:
    return "[" + ", ".join(map(str, ids)) + "]"


def _truncation(server: str, event: watch_pb2.TruncationEvent) -> Told:
    broker = int(server.rpartition("-")[2])
    reason = TRUNCATIONS.get(event.reason, "unknown")
    why = _TRUNCATION_REASONS.get(reason, reason)
    details: dict[str, Scalar] = {
        "from": event.from_offset,
        "to": event.to_offset,
        "reason": reason,
        "high_watermark": event.high_watermark,
        "acknowledged": event.acknowledged if event.HasField("acknowledged") else None,
    }
    sentence = (
        f"broker {broker} truncated {event.topic}:{event.partition} from {event.from_offset} to"
        f" {event.to_offset}: {why}"
    )
    return "truncation", sentence, {**_place(event), "broker": broker, "details": details}


def _loss(_server: str, event: watch_pb2.LossEvent) -> Told:
    sentence = (
        f"broker {event.broker_id} lost offsets {event.start_offset} to {event.end_offset} of"
        f" {event.topic}:{event.partition} that may have been committed"
    )
    details: dict[str, Scalar] = {
        "start": event.start_offset,
        "end": event.end_offset,
        "committed": event.committed_offset,
        "leader_epoch": event.leader_epoch,
    }
    return "loss", sentence, {**_place(event), "broker": event.broker_id, "details": details}


def _election(_server: str, event: watch_pb2.ElectionEvent) -> Told:
    partition = f"{event.topic}:{event.partition}"
    about = event.broker_id if event.HasField("broker_id") else None
    reason = _ELECTION_REASONS.get(event.reason, "the reason is unknown").format(
        "?" if about is None else about
    )
    leader = event.leader_id if event.HasField("leader_id") else None
    former = event.former_leader if event.HasField("former_leader") else None
    what = f"{partition} has no leader" if leader is None else f"broker {leader} leads {partition}"
    unclean = ", elected uncleanly" if event.unclean else ""
    sentence = f"{what} in epoch {event.leader_epoch}{unclean}: {reason}"
    details: dict[str, Scalar] = {
        "former_leader": former,
        "leader": leader,
        "leader_epoch": event.leader_epoch,
        "reason": reason,
        "unclean": event.unclean,
    }
    return "election", sentence, {**_place(event), "broker": leader, "details": details}


def _isr(_server: str, event: watch_pb2.IsrEvent) -> Told:
    partition = f"{event.topic}:{event.partition}"
    left = sorted(set(event.former_isr) - set(event.isr))
    joined = sorted(set(event.isr) - set(event.former_isr))
    sentence = f"the ISR of {partition} is {_ids(event.isr)}, was {_ids(event.former_isr)}"
    if list(event.former_elr) != list(event.elr):
        sentence += f"; its ELR is {_ids(event.elr)}"
    details: dict[str, Scalar] = {
        "left": _ids(left),
        "joined": _ids(joined),
        "partition_epoch": event.partition_epoch,
    }
    only = [*left, *joined]
    broker = only[0] if len(only) == 1 else None
    return "isr", sentence, {**_place(event), "broker": broker, "details": details}


def _broker(_server: str, event: watch_pb2.BrokerEvent) -> Told:
    did = _BROKER_EVENTS.get(event.kind, "changed")
    why = f": {event.why}" if event.why else ""
    details: dict[str, Scalar] = {"broker_epoch": event.broker_epoch}
    fields = {"broker": event.broker_id, "details": details}
    return "broker", f"broker {event.broker_id} {did}{why}", fields


def _reassignment(_server: str, event: watch_pb2.ReassignmentEvent) -> Told:
    step = _STEPS.get(event.step, "changed")
    sentence = (
        f"the reassignment of {event.topic}:{event.partition} {step}: replicas"
        f" {_ids(event.replicas)}, were {_ids(event.former_replicas)}"
    )
    details: dict[str, Scalar] = {"adding": _ids(event.adding), "removing": _ids(event.removing)}
    return "reassignment", sentence, {**_place(event), "details": details}


def _topic(_server: str, event: watch_pb2.TopicEvent) -> Told:
    did = "deleted" if event.deleted else "created"
    return "topic", f"topic {event.topic} was {did}", {"topic": event.topic}


def _rebalance(_server: str, event: watch_pb2.RebalanceEvent) -> Told:
    why = f": {event.why}" if event.why else ""
    sentence = f"group {event.group_id} rebalances in epoch {event.group_epoch}{why}"
    details: dict[str, Scalar] = {"group_epoch": event.group_epoch}
    return "rebalance", sentence, {"group": event.group_id, "details": details}


def _controller(_server: str, event: watch_pb2.ControllerEvent) -> Told:
    sentence = f"the controller began its epoch {event.controller_epoch}"
    return "controller", sentence, {"details": {"controller_epoch": event.controller_epoch}}


_TELLERS: Final[dict[str, Callable[[str, Any], Told]]] = {
    "truncation": _truncation,
    "loss": _loss,
    "election": _election,
    "isr": _isr,
    "broker": _broker,
    "reassignment": _reassignment,
    "topic": _topic,
    "rebalance": _rebalance,
    "controller": _controller,
}
