"""One call between a member, or another client, and a coordinator: every answer is compared with
the log of the coordinator's own replica at that moment.

- An answer has committed state only (I-104). On a stream it has what is written of the member just
then (I-131).
- An acknowledged commit is in the log. Its sender was entitled to it (I-142, I-144), and no other
member owned the partition (I-132).
- A returned offset was the committed one at some time since the request (I-106, I-143).
- A fencing or an acceptance follows from the protocol's tables and the records (I-135).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from strandline_proof.sim.oracles.groups.admission import (
    FENCED_EPOCH,
    LEAVES,
    VERDICTS,
    beat_refusals,
    commit_refusal,
    usurped,
)
from strandline_proof.sim.oracles.groups.fold import ABSENT_EPOCH
from strandline_proof.sim.oracles.groups.said import NONE_COMMITTED
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_proof.sim.oracles.groups.admission import Who
    from strandline_proof.sim.oracles.groups.fold import Fold, Place, Step
    from strandline_proof.sim.oracles.groups.said import Beat, CommitWish, Said, View
    from strandline_proof.sim.oracles.groups.standing import Standing


@dataclass(slots=True)
class Epochs:
    """Epochs of one member, in one leadership of its coordinator."""

    told: set[int] = field(default_factory=set)
    """Epochs that the coordinator has sent."""
    said: set[int] = field(default_factory=set)
    """Epochs that the member has sent, in whatever call. One that was right then is its newest
    until it receives another (the coordinator may have accepted it without a push).
    """

    def clear(self) -> None:
        self.told.clear()
        self.said.clear()


class _Asked(NamedTuple):
    beat: Beat
    crossed: bool
    told: frozenset[int]
    said_before: bool
    """True if the same epoch was sent before in this call: its acceptance may be
    unannounced yet.
    """
    said_elsewhere: bool
    low: int


class Conversation:
    def __init__(self, where: str, epochs: Epochs) -> None:
        self._where = where
        self._epochs = epochs
        self._beats: dict[int, _Asked] = {}
        self._commits: dict[int, tuple[CommitWish, int]] = {}
        self._reads: dict[str, int] = {}
        self._news_push = 0
        self._last_epoch: int | None = None
        self._who: Who | None = None
        self._said: set[int] = set()

    @property
    def member_id(self) -> str:
        return "" if self._who is None else self._who.member_id

    # Requests

    def beats(self, number: int, beat: Beat, low: int, *, seen_push: int = 0) -> None:
        """Records a heartbeat. `low`: the end of the log now."""
        self._who = beat.who
        crossed = min(seen_push, self._news_push) < self._news_push
        epoch, epochs = beat.who.epoch, self._epochs
        self._beats[number] = _Asked(
            beat, crossed, frozenset(epochs.told), epoch in self._said, epoch in epochs.said, low
        )
        self._said.add(epoch)
        epochs.said.add(epoch)

    def refuses(self, number: int, standing: Standing) -> bool:
        """True if the heartbeat that has just been read can only be refused."""
        return None not in self._allowed(self._beats[number], standing)

    def commits(self, number: int, wish: CommitWish, low: int) -> None:
        """Records a commit. `low`: the end of the committed log."""
        self._commits[number] = wish, low

    def reads(self, group_id: str, low: int) -> None:
        """Records a query. `low`: its answer may not be older than what is committed up
        to there.
        """
        self._reads[group_id] = low

    # Answers

    def receives(self, view: View, *, push: int) -> None:
        """Records what the member receives, whatever the verdict on it is: a heartbeat sent before
        the last push arrived crosses it.
        """
        if view.error:
            return
        self._epochs.told.add(view.epoch)
        if view.assignment is not None or view.epoch != self._last_epoch:
            self._news_push, self._last_epoch = push, view.epoch

    def tells(self, number: int, view: View, standing: Standing, *, at_once: bool) -> None:
        """Judges an answer. `number`: the newest heartbeat that it answers, 0: none. `at_once`: the
        answer was rendered in this step, as on a stream.
        """
        asked = [self._beats.pop(n) for n in sorted(self._beats) if n <= number]
        if view.error:
            if view.error in VERDICTS:
                self._check_refused(asked[-1] if asked else None, view.error, standing)
            return
        for each in asked:
            self._check_accepted(each, standing)
        if self._who is None or not standing.leads:
            return
        if view.epoch in (LEAVES, ABSENT_EPOCH):
            self._check_left(asked, view.epoch, standing)
            return
        if at_once:
            self._check_now(self._who, view, standing)
        elif asked:
            self._check_since(self._who, view, asked[-1].low, standing)
        self._check_values(self._who.group_id, view.offsets, [standing.committed])

    def acknowledges(
        self, number: int, places: Iterable[Place], standing: Standing, *, is_whole: bool = True
    ) -> None:
        """Judges an acknowledgement. `is_whole`: the group's log has lost nothing. Otherwise its
        epochs come again, and a former member may pass for one of the same epoch without
        assignments.
        """
        wish, low = self._commits.pop(number)
        for place in places:
            steps = self._check_committed(wish.who, place, wish.offsets[place], low, standing)
            others = [usurped(step.before, wish.who, place) for step in steps]
            if is_whole and None not in others:
                raise Violation(
                    "I-132",
                    f"{self._where}: offset {wish.offsets[place][0]} of {place} is acknowledged to"
                    f" {wish.who}, and the partition was {others[0]}'s",
                )

    def tells_offsets(
        self, group_id: str, offsets: Mapping[Place, Said], standing: Standing
    ) -> None:
        low = self._reads.get(group_id, 0)
        self._check_values(
            group_id, offsets, list(standing.folds(low, max(low, standing.high_watermark)))
        )

    # Views

    def _check_now(self, who: Who, view: View, standing: Standing) -> None:
        fold, mark = standing.written, standing.high_watermark
        end = fold.end_of((who.group_id, who.member_id))
        if end > mark:
            raise Violation(
                "I-104",
                f"{self._where}: {who} gets {_words(view)}, and what is written of it ends at"
                f" {end}, committed is {mark}",
            )
        if not _is_view(fold, who, view):
            raise Violation(
                "I-131",
                f"{self._where}: {who} gets {_words(view)}, and written is {_written(fold, who)}",
            )

    def _check_since(self, who: Who, view: View, low: int, standing: Standing) -> None:
        folds = standing.folds(low, standing.high_watermark)
        if not any(_is_view(fold, who, view) for fold in folds):
            raise Violation(
                "I-131",
                f"{self._where}: {who} gets {_words(view)}, which was never committed since it"
                f" asked; committed is {_written(standing.committed, who)}",
            )

    def _check_left(self, asked: list[_Asked], epoch: int, standing: Standing) -> None:
        for each in asked:
            who = each.beat.who
            for fold in standing.folds(each.low, standing.high_watermark):
                current = fold.group(who.group_id).currents.get(who.member_id)
                if current is None or current.epoch == epoch:
                    break
            else:
                raise Violation("I-104", f"{self._where}: {who} gets the answer that it has left")

    # Verdicts

    def _allowed(self, asked: _Asked, standing: Standing) -> set[int | None]:
        beat, last = asked.beat, standing.steps[-1].decision.end if standing.steps else 0
        found: set[int | None] = {None, FENCED_EPOCH} if asked.said_before else set()
        if asked.said_elsewhere and not any(told > beat.who.epoch for told in asked.told):
            found.add(None)
        # An epoch that was right when the member sent it counts as received, also if newer ones
        # were lost.
        known = (
            [asked.told, asked.told | {beat.who.epoch}] if asked.said_elsewhere else [asked.told]
        )
        for fold in standing.folds(asked.low, last):
            for told in known:
                found |= beat_refusals(fold, beat.who, beat.owned, crossed=asked.crossed, told=told)
        return found

    def _check_refused(self, asked: _Asked | None, error: int, standing: Standing) -> None:
        if not standing.leads:
            return
        if asked is None:
            who = self._who
            if who is not None and who.member_id in standing.written.group(who.group_id).members:
                raise Violation(
                    "I-135", f"{self._where}: {who} gets error {error}, and is a member"
                )
            return
        allowed = self._allowed(asked, standing)
        if error not in allowed:
            raise Violation(
                "I-135",
                f"{self._where}: {asked.beat.who}, which owns {_listed(asked.beat.owned)}, gets"
                f" error {error}; written is {_written(standing.written, asked.beat.who)}",
            )

    def _check_accepted(self, asked: _Asked, standing: Standing) -> None:
        if standing.leads and None not in self._allowed(asked, standing):
            raise Violation(
                "I-135",
                f"{self._where}: {asked.beat.who}, which owns {_listed(asked.beat.owned)}, is taken"
                f" for a member; written is {_written(standing.written, asked.beat.who)}",
            )

    # Offsets

    def _check_committed(
        self, who: Who, place: Place, said: Said, low: int, standing: Standing
    ) -> list[Step]:
        """Returns the decisions that may have committed it."""
        what = f"{self._where}: offset {said[0]} of {place} is acknowledged to {who}"
        found = [step for step in standing.since(low) if _commits(step, who.group_id, place, said)]
        if not found:
            mark = standing.high_watermark
            raise Violation("I-142", f"{what}, and is not in the log from {low} to {mark}")
        errors = [commit_refusal(step.before, who, place) for step in found]
        if None not in errors:
            raise Violation("I-144", f"{what}, which was to be told error {errors[0]}")
        return found

    def _check_values(
        self, group_id: str, offsets: Mapping[Place, Said], folds: list[Fold]
    ) -> None:
        for place, said in offsets.items():
            known = {_value(fold, group_id, place) for fold in folds}
            if said not in known and not (said[0] == NONE_COMMITTED and None in known):
                raise Violation(
                    "I-106",
                    f"{self._where}: group {group_id!r} gets {said} of {place}, committed since"
                    f" it asked was {known}",
                )


def _is_view(fold: Fold, who: Who, view: View) -> bool:
    current = fold.group(who.group_id).currents.get(who.member_id)
    return (
        current is not None
        and current.epoch == view.epoch
        and view.assignment in (None, frozenset(current.assigned))
    )


def _value(fold: Fold, group_id: str, place: Place) -> Said | None:
    for key, value in fold.offsets.items():
        if (key.group, value.topic_id, key.partition) == (group_id, *place):
            return value.said
    return None


def _commits(step: Step, group_id: str, place: Place, said: Said) -> bool:
    return any(
        record.kind == "offset_commit"
        and record.value is not None
        and record.key["group"] == group_id
        and (record.value.get("topic_id"), record.key["partition"]) == place
        and (record.value["offset"], record.value.get("leader_epoch"), record.value["metadata"])
        == said
        for record in step.decision.records
    )


def _listed(places: Iterable[Place] | None) -> str:
    return "an unknown set" if places is None else str(sorted(places))


def _words(view: View) -> str:
    what = "what it had" if view.assignment is None else _listed(view.assignment)
    return f"epoch {view.epoch} with {what}"


def _written(fold: Fold, who: Who) -> str:
    current = fold.group(who.group_id).currents.get(who.member_id)
    if current is None:
        return "nothing of it"
    return f"epoch {current.epoch} with {_listed(current.assigned)}"
