"""All groups of one shard: commands in, records and answers out, records replayed.

`decide` changes nothing that a record tells of; `replay` alone does, live as at load, so that the
state is the fold of the log whoever built it (I-102). What is volatile (who was told what, which
epoch a member has stated) only ever makes an answer longer or an acknowledgement later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.coordination.decision import Decision, Record
    from strandline_broker.core.groups.assignors import Assignor, PartitionSets
    from strandline_broker.core.groups.commands import (
        BeatAnswer,
        Command,
        FetchedOffset,
        Inputs,
        Reply,
    )
    from strandline_broker.core.groups.effects import Effect, StartTimer
    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_broker.core.groups.subscription import Matcher
    from strandline_proto.errors import WireError
    from strandline_proto.ids import Offset


class Groups:
    """The groups of one shard, empty until its log is replayed."""

    def __init__(
        self, settings: GroupSettings, assignors: Sequence[Assignor], matcher: Matcher
    ) -> None:
        self._settings = settings
        known = {assignor.name: assignor for assignor in assignors}
        for name in settings.consumer_assignors:
            if name not in known:
                raise InvalidConfig(
                    f"group.consumer.assignors names {name!r}, and there are {', '.join(known)}"
                )
        self._assignors = {name: known[name] for name in settings.consumer_assignors}
        self._matcher = matcher

    def decide(self, command: Command, inputs: Inputs) -> Decision[Reply, Effect]:
        """Raises nothing but what is our own fault; a refusal is an answer. A decision that the
        host does not carry out to its end leaves the shard unusable: it is loaded again.
        """
        raise AssertionError(command)

    def replay(self, offset: Offset, record: Record) -> None:
        """Records of decisions, or any part of them that compaction has left (I-139)."""
        raise AssertionError(record)

    def render(
        self, group_id: str, member_id: str, inputs: Inputs, *, full: bool
    ) -> BeatAnswer | WireError:
        """What holds for the member now, to be sent now; the host has made sure that all of it is
        committed. The assignment is in it if `full`, or if it differs from what was told last.
        """
        raise AssertionError(group_id)

    def granted_offsets(
        self, group_id: str, partitions: PartitionSets
    ) -> tuple[FetchedOffset, ...]:
        """The committed offsets that may ride on a grant of these partitions, rendered with it."""
        raise AssertionError(group_id)

    def timers(self, inputs: Inputs) -> tuple[StartTimer, ...]:
        """All that must run for this state, full anew: asked once after a load (I-137)."""
        raise AssertionError(inputs)

    def group_ids(self) -> tuple[str, ...]:
        """All that are known, by a record of their own or by offsets; sorted."""
        raise AssertionError(self._settings)
