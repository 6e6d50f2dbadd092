"""WriteTxnMarkers: an administrator's abort of a hanging transaction (KIP-664).

In Kafka the coordinators of transactions send this request too, to commit as well. Ours have their
own, so a commit by this one would contradict the decision of a coordinator, and is refused (I-163).
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.bounds import check_topics
from strandline_proto.errors import NONE, InvalidRequest, UnknownTopicOrPartition, WireError
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.serving.producers.markers import MarkersService
    from strandline_broker.kafka.request import Request

VERSION_SINCE: Final = 2
"""First version that names the version of the transaction."""
_NO_TOPIC: Final = UnknownTopicOrPartition("there is no topic of that name")
_COMMIT: Final = InvalidRequest(
    "transaction_result is commit: an administrator may only abort, the coordinator decides"
)


class TxnMarkersCalls:
    def __init__(self, markers: MarkersService, metadata: MetadataCache) -> None:
        self._markers = markers
        self._metadata = metadata
        self._answer = answer_of("WriteTxnMarkers")

    async def WriteTxnMarkers(self, request: Request, message: Any) -> Any:
        topics = [topic for marker in message.markers for topic in marker.topics]
        check_topics(topics, (topic.partition_indexes for topic in topics))
        asked = [self._asked(marker, request.version) for marker in message.markers]
        written = iter(await self._markers.write([each for each in asked if each is not None]))
        answered = []
        for marker, each in zip(message.markers, asked, strict=True):
            errors: Iterator[WireError | None]
            errors = repeat(_COMMIT) if each is None else iter(next(written))
            results = list(self._results(marker.topics, errors))
            request.errors += {p.error_code for t in results for p in t.partitions} - {NONE}
            answered.append(
                self._answer.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=results)
            )
        return self._answer(markers=answered)

    def _asked(self, marker: Any, version: int) -> MarkerToWrite | None:
        """The marker with those of its partitions whose topics exist; None: it is refused."""
        if marker.transaction_result:
            return None
        keys: list[Key] = [
            (topic_id, index)
            for topic in marker.topics
            if (topic_id := self._topic_id(topic)) is not None
            for index in topic.partition_indexes
        ]
        return MarkerToWrite(
            EndMarker(
                ProducerId(marker.producer_id),
                ProducerEpoch(marker.producer_epoch),
                is_commit=False,
                coordinator_epoch=LeaderEpoch(marker.coordinator_epoch),
                transaction_version=marker.transaction_version if version >= VERSION_SINCE else 0,
            ),
            keys,
        )

    def _topic_id(self, topic: Any) -> bytes | None:
        return self._metadata.view.ids_by_name.get(topic.name)

    def _results(self, topics: Sequence[Any], errors: Iterator[WireError | None]) -> Iterator[Any]:
        new = self._answer.WritableTxnMarkerResult.WritableTxnMarkerTopicResult
        for topic in topics:
            is_known = self._topic_id(topic) is not None
            results = []
            for index in topic.partition_indexes:
                error = next(errors) if is_known else _NO_TOPIC
                results.append(
                    new.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=NONE if error is None else error.code
                    )
                )
            yield new(name=topic.name, partitions=results)
