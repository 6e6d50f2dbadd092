"""Types for the integers and bytes that must never be mixed up."""

from typing import Final, NewType

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""Number of one incarnation of a broker: the metadata offset of its registration."""
ControllerEpoch = NewType("ControllerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
MetadataOffset = NewType("MetadataOffset", int)
"""Position in the controller's log."""
Offset = NewType("Offset", int)
"""Position of a record; an end offset is one past the last record."""
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", bytes)
"""The 16 bytes that name one creation of a topic."""

NO_LEADER = BrokerId(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
UNKNOWN_EPOCH = LeaderEpoch(-1)
UNKNOWN_OFFSET = Offset(-1)
NO_PRODUCER_ID = ProducerId(-1)
CHOSEN_PRODUCER_IDS: Final = range(1 << 62, 1 << 63)
"""Ids that producers choose themselves, by a hash of their work, so that a repetition of the same
work has the same id. The controller assigns none of them (I-59).
"""


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka prints it: url-safe base64 of 16 bytes, 22 characters, no padding."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(topic_id).decode("ascii").rstrip("=")


def topic_id_bytes(text: str) -> TopicId:
    """The inverse of `topic_id_text`. Raises ValueError if `text` is not 22 such characters."""
    from base64 import urlsafe_b64decode

    raw = urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"topic id {text!r} is {len(raw)} bytes, not 16")
    return TopicId(raw)
