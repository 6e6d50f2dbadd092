"""The answer to "Why is broker 3 not in the ISR", from the reports at one instant."""

from collections.abc import Iterable, Mapping
from typing import Any

from strandline_console.answers import Why
from strandline_console.messages import TimelineEvent
from strandline_console.recording.entities import (
    Entity,
    Maps,
    partition_key,
    replica_key,
)
from strandline_console.recording.figures import is_watched, leader_replica


def why_not_in_isr(
    maps: Maps, topic: str, partition: int, broker: int, events: Iterable[TimelineEvent] = ()
) -> Why:
    """One sentence, from what the servers report. `events` are the latest first."""
    name = partition_key(topic, partition)
    leader = leader_replica(maps, topic, partition)
    decided = maps["partitions"].get(name) if is_watched(maps, "controller") else None
    isr = _isr(decided, leader)
    if isr is None:
        return Why(
            in_isr=None,
            sentence=f"The ISR of {name} is unknown: no controller and no leader reports it.",
        )
    if broker in isr:
        return Why(in_isr=True, sentence=f"Broker {broker} is in the ISR of {name}.")
    if decided is not None and broker not in decided["replicas"]:
        return Why(in_isr=False, sentence=f"Broker {broker} holds no replica of {name}.")
    reason = _reason(maps, decided, leader, topic, partition, broker)
    left = next((e for e in events if _left(e, topic, partition, broker)), None)
    since = "" if left is None else f" It left after this event: {left.sentence}."
    return Why(
        in_isr=False, sentence=f"Broker {broker} is not in the ISR of {name}: {reason}.{since}"
    )


def _isr(decided: Entity | None, leader: Entity | None) -> list[int] | None:
    isr: list[int] | None = None
    if decided is not None:
        isr = decided["isr"]
    elif leader is not None:
        isr = leader["isr_committed"]
    return isr


def _left(event: TimelineEvent, topic: str, partition: int, broker: int) -> bool:
    return (
        event.kind == "isr"
        and (event.topic, event.partition) == (topic, partition)
        and event.broker == broker
        and event.details.get("left") not in (None, "[]")
    )


def _reason(
    maps: Maps,
    decided: Entity | None,
    leader: Entity | None,
    topic: str,
    partition: int,
    broker: int,
) -> str:
    server = maps["servers"].get(f"broker-{broker}")
    of_broker = None if server is None else _reason_of_broker(maps, server)
    if of_broker is not None:
        return of_broker
    replica = maps["replicas"].get(replica_key(topic, partition, broker))
    if replica is not None and replica["condition"] is not None:
        said = replica["condition_reason"]
        return f"its replica is {replica['condition'].replace('_', ' ')}" + (
            f" ({said})" if said else ""
        )
    if replica is not None and replica["role"] == "offline":
        return "its replica is offline"
    if leader is None:
        if decided is not None and decided["leader"] == -1:
            return "the partition has no leader, and only a leader can propose an ISR"
        return "the reason is unknown, because the leader is not watched"
    return _reason_of_leader(leader, broker)


def _reason_of_broker(maps: Maps, server: Mapping[str, Any]) -> str | None:
    if is_watched(maps, "controller"):
        if server["fenced"]:
            controller = maps["servers"]["controller"]
            heard, now = server["last_heartbeat_ms"], controller["server_time_ms"]
            if heard is None or now is None:
                return "the controller has fenced it"
            ago = max(0, now - heard) / 1000
            return f"the controller has fenced it; its last heartbeat came {ago:.1f} s before"
        if server["in_controlled_shutdown"]:
            return "it is in controlled shutdown"
    if server["state"] == "absent":
        return f"it does not answer ({server['reason']})"
    return None


def _reason_of_leader(leader: Entity, broker: int) -> str:
    at = f"leader {leader['broker']}"
    if leader["isr_proposed"] is not None and broker in leader["isr_proposed"]:
        return f"{at} has proposed its return, and the controller has not answered"
    fetcher = next((f for f in leader["fetchers"] or () if f["broker"] == broker), None)
    if fetcher is None or fetcher["fetch_offset"] is None:
        return f"it has not fetched from {at} in epoch {leader['leader_epoch']}"
    behind = leader["log_end"] - fetcher["fetch_offset"]
    if fetcher["fetch_offset"] < leader["high_watermark"]:
        return (
            f"it has fetched up to {fetcher['fetch_offset']}, which is {behind} records behind the"
            f" log end {leader['log_end']} of {at}"
        )
    return (
        f"it has fetched up to {fetcher['fetch_offset']}, at or above the watermark"
        f" {leader['high_watermark']}, and {at} has not proposed its return yet"
    )
