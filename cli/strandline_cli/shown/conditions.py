"""The reasons why a replica does not count as its broker's others do, in words for people."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FENCED: Final = "fenced"
_WORDS: Final = {
    FENCED: "does not answer: its broker is down, or cannot reach the controller",
    "out-of-service": "serves nothing: its disk has failed, or its log could not be opened",
    "missing": "is not where it was: its disk is empty, or is not mounted",
    "damaged": "lacks a damaged range of offsets",
    "damaged-identity": "is damaged: nothing says whose its directory is, so it was set aside",
    "truncation-refused": "is stopped: its leader would have it cut acknowledged records",
    "disk-full": "takes no more records: its disk is full, or its broker can open no more files",
}
"""The words for each name in `PartitionInfo.offline_conditions`."""


def condition_text(condition: str) -> str:
    """The text that follows the replica's name."""
    return _WORDS.get(condition, f"does not count ({condition})")


def condition_texts(brokers: "Sequence[int]", conditions: "Sequence[str]") -> list[str]:
    """A sentence for each replica that does not count although its broker lives."""
    return [
        f"the replica on broker {broker} {condition_text(condition)}"
        for broker, condition in zip(brokers, conditions, strict=False)
        if condition != FENCED
    ]


def refusal_text(
    topic: str,
    *,
    partition: int,
    broker: int,
    leader: int,
    leader_epoch: int,
    offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> str:
    """The truncation that a replica has refused, and the command that permits it."""
    return (
        f"{topic}:{partition} on broker {broker} has refused to cut offsets {offset} to"
        f" {log_end_offset - 1}, of which it knows those below {high_watermark} to be acknowledged:"
        f" leader {leader} of epoch {leader_epoch} does not have them (to give them up:"
        f" `strandline replica truncate {topic}:{partition} --broker {broker} --to {offset}`)"
    )
