"""Topics in the requests for committed offsets: by name, by id from version 10 on."""

from __future__ import annotations

from typing import Any, Final

from strandline_broker.core.groups.commands import TopicRef
from strandline_proto.ids import TopicId

MEMBER_EPOCHS_SINCE: Final = 9
"""First version of OffsetCommit and OffsetFetch whose sender knows member epochs (KIP-848)."""
TOPIC_IDS_SINCE: Final = 10
"""First version of both that names topics by id."""


def topic_of(topic: Any, version: int) -> TopicRef:
    if version >= TOPIC_IDS_SINCE:
        return TopicRef(TopicId(topic.topic_id))
    return TopicRef(None, topic.name)
