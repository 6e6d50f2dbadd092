"""The application of the controller's envelopes, one at a time, and the record of progress.

One task applies them, for all push streams: a stream that breaks in the middle of an envelope must
not leave it half applied (P-38). A newer stream replaces the older one. Envelopes of the older one
that were not begun are dropped.

Before an envelope is answered, the data directory records its metadata offset. That file exposes a
controller that was restored from an older copy (P-76), and the controller relies on the answer. So
an answered offset is never lost, not even with the machine's power. The file is written after the
envelope has been applied, so an election does not wait for that write. A crash in between loses at
most the one envelope that was not answered.

If the file cannot be written, or a role not be taken, the broker requests everything again later:
an election may wait for a log end that the answer leaves out (I-53, I-88).

An envelope is answered in time, however slow that file is:

- The answer alone makes the controller elect other leaders for partitions that could not be
  applied. A disk that delays a role delays the file too, and heartbeats already report the envelope
  as applied (I-94).
- The next envelope waits no longer either. Leaders on sound disks must learn which replicas may
  join an ISR. The controller neither replaces nor fences them for envelopes that they have not
  received (I-88, I-89).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.push_answer import (
    UNKNOWN,
    FailedPartition,
    LogEnd,
    PushAnswer,
    ReplicaLogEnd,
)
from strandline_broker.hosts.disks.blocking_work import StillAtWorkError
from strandline_proto.errors import InvalidUpdateVersion, KafkaStorageError, WireError
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.push_envelope import Envelope
    from strandline_broker.hosts.member.envelopes import Envelopes
    from strandline_broker.hosts.member.push_streams import IncomingPushStream, PushStreams
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_proto.ids import BrokerEpoch
    from strandline_runtime.runtime import Runtime

ENVELOPES_WAITING_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class _Job:
    stream: IncomingPushStream
    envelope: Envelope
    answer: asyncio.Future[PushAnswer | None]


class PushReceiver:
    def __init__(
        self,
        runtime: Runtime,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        envelopes: Envelopes,
        streams: PushStreams,
        *,
        broker_epoch: Callable[[], BrokerEpoch],
        on_applied: Callable[[], None],
    ) -> None:
        self._log = runtime.log
        self._metadata = metadata
        self._replicas = replicas
        self.envelopes = envelopes
        self.streams = streams
        self._broker_epoch = broker_epoch
        self._on_applied = on_applied
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue(ENVELOPES_WAITING_MAX)

    async def apply(self, stream: IncomingPushStream, envelope: Envelope) -> PushAnswer | None:
        """Apply the envelope in its turn; returns None if a newer stream has replaced its stream
        before that.

        The caller may be cancelled at any time; an envelope that was begun is finished
        nevertheless.
        """
        answer: asyncio.Future[PushAnswer | None] = asyncio.get_running_loop().create_future()
        await self._jobs.put(_Job(stream, envelope, answer))
        return await answer

    async def run(self) -> None:
        """Apply until cancelled. Start it only when the logs are loaded and the broker is
        registered.
        """
        async with self.envelopes.late.owned():
            await self._apply_all()

    async def _apply_all(self) -> None:
        while True:
            job = await self._next_job()
            if job.answer.cancelled():
                continue
            answer = (
                None if not self.streams.is_current(job.stream) else await self._apply(job.envelope)
            )
            if not job.answer.done():
                job.answer.set_result(answer)

    async def _next_job(self) -> _Job:
        while True:
            wait_s = self.streams.asks_in_s()
            if wait_s is not None and wait_s <= 0:
                self.streams.ask_for_all()
                continue
            try:
                async with asyncio.timeout(wait_s):
                    return await self._jobs.get()
            except TimeoutError:
                continue

    async def _apply(self, envelope: Envelope) -> PushAnswer:
        metadata = self._metadata
        refusal = metadata.check(envelope, broker_epoch=self._broker_epoch())
        if isinstance(refusal, InvalidUpdateVersion):
            self._log.info("a controller push does not follow; asking for all", why=str(refusal))
            return self._answer(envelope, want_full=True)
        if refusal is not None:
            self._log.warning("a controller push is refused", why=str(refusal))
            return self._answer(envelope, error=refusal)
        view = metadata.prepare(envelope)
        failed = await self.envelopes.apply(envelope)
        if self.envelopes.lacks_something:
            self.streams.ask_later()
        # Only now may clients be sent to a leader that this envelope names.
        metadata.publish(view, store_id=envelope.store_id)
        self._on_applied()
        try:
            await self._remember(envelope)
        except (OSError, StillAtWorkError) as error:
            where = f"the data directory cannot record metadata offset {envelope.metadata_offset}"
            refusal = KafkaStorageError(f"{where}: {error}")
            self._log.error("a controller push was applied but not recorded", why=str(refusal))
            self.streams.ask_later()
            return self._answer(envelope, error=refusal, failed=tuple(failed))
        return replace(
            self._answer(envelope, failed=tuple(failed)),
            log_ends=tuple(_ends_without_leader(self._replicas, envelope)),
        )

    async def _remember(self, envelope: Envelope) -> None:
        await self._replicas.dirs.remember(
            self.envelopes.late.limit_s(),
            cluster_id=envelope.cluster_id,
            store_id=envelope.store_id,
            controller_epoch=envelope.controller_epoch,
            metadata_offset=envelope.metadata_offset,
        )

    def _answer(
        self,
        envelope: Envelope,
        *,
        want_full: bool = False,
        error: WireError | None = None,
        failed: tuple[FailedPartition, ...] = (),
    ) -> PushAnswer:
        return PushAnswer(
            metadata_offset=envelope.metadata_offset,
            applied_offset=self._metadata.applied_offset,
            controller_epoch=self._metadata.controller_epoch,
            store_id=self._metadata.store_id,
            want_full=want_full,
            error=error,
            failed=failed,
        )


def _ends_without_leader(replicas: ReplicaManager, envelope: Envelope) -> Iterator[ReplicaLogEnd]:
    """The log ends of partitions that an applied envelope leaves without a leader (I-53).

    They stay the same until a push names a leader: nothing is appended or truncated meanwhile.
    """
    for state in envelope.leader_and_isr:
        partition = replicas.partitions.get((state.topic_id, state.partition))
        if state.leader != NO_LEADER or partition is None or partition.unusable is not None:
            continue
        if partition.state is not None and partition.state.leader_epoch == state.leader_epoch:
            log, known = partition.log, partition.log.leader_epochs
            end, mark = log.log_end_offset, partition.high_watermark
            yield ReplicaLogEnd(
                topic_id=state.topic_id,
                partition=state.partition,
                leader_epoch=state.leader_epoch,
                end=LogEnd(
                    known.latest(),
                    end,
                    min(mark, end),
                    known_epoch=known.newest_known if known.is_whole else UNKNOWN,
                    parts_at=known.parts_at(end),
                ),
            )
