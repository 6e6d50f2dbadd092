"""The ghost of one partition: every record that was ever committed, and the leader of each epoch.

The ghost decides whether a loss is permitted. Without an fsync for each write, committed records
may go if at least min.insync.replicas replicas lose unflushed data before they have it back (I-54).
So they may if all remaining replicas do, after an administrator has taken away replicas that were
in sync (I-86). With `flush.policy=always` they may never go. They also may go where the topic
allows unclean elections. Records that the new leader lacks are then no longer committed, and must
be reported (I-53); all others stay committed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from strandline_proof.sim.oracles.replica.log_view import BASE, END, LogView
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import broker_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.replica.log_view import Entry, Identity


class GivenUp(NamedTuple):
    """Records that one replica has truncated though they were committed once."""

    by: str
    life: int
    """The number of that node's process."""
    entries: tuple[Entry, ...]
    believed: int
    """Its high watermark at that time."""


class Committed:
    reports_forgotten = False
    """True if the controller's store has come back as an older copy."""
    permitted: str | None = None
    """The reason why records may be missing that were committed at any time."""
    judged_from = 0
    """Records before this offset were committed, or lost, under an excuse that is over."""
    lost_uncleanly = False
    """True if an unclean election has cost some of `lost`, or a deposed leader's commit."""

    def __init__(self, index: int, *, min_insync: int, always: bool) -> None:
        self.index, self.name = index, f"partition {index}"
        self.entries: list[Entry] = []
        self.end = 0
        """trueHW: the greatest high watermark that any leader has had."""
        self.excused: str | None = None
        """The reason why records may be missing; over once `start_again` knows the survivors."""
        self.min_insync = min_insync
        """The lowest min.insync.replicas since that many ISR members held all committed records."""
        self._left: int | None = None
        """Members of ISR and ELR at the last removal, until the ISR has the minimum."""
        self._always = always
        self._ids: dict[Identity, Entry] = {}
        self._committed: dict[Identity, Entry] = {}
        self._leaders: dict[int, tuple[str, int]] = {}
        self.lost_on: dict[str, bool] = {}
        """Nodes that lack committed records after a loss of power; True if permitted."""
        self._cut_short: dict[str, int] = {}
        """Log ends of nodes that lost any records with the power, until they append."""
        self._replaced: set[str] = set()
        """Nodes that replaced another one under the same broker id."""
        self.damaged: dict[str, Entry] = {}
        """The batch that a node's disk has changed, until the node has truncated it (I-7)."""
        self._removed_with: dict[str, Entry] = {}
        """The damaged batches of nodes whose replica was removed, until they have one again."""
        self.asked = 0
        """The offset up to which an administrator has asked to delete records."""
        self.begins = 0
        """The greatest log start that any replica has had."""
        self._removed_to = 0
        """The greatest log start since the last unclean election."""
        self.deleted: dict[str, int] = {}
        """Offsets below which a node of the ISR holds nothing, by its leader's word (I-75)."""
        self.given_up = False
        """True if the partition is not required ever to be whole again."""
        self.lost: dict[Identity, Entry] = {}
        """Committed records that unclean elections, which the topic allows, may have cost."""
        self.unclean_epoch = -1
        """The leader epoch of the last of them."""
        self._kept = 0
        """The offset from which on that election may have cost records."""
        self._alone = False  # true while only the leader that it elected is known to hold that
        self.given_up_by: list[GivenUp] = []
        self.promised: dict[Identity, Entry] = {}
        """Records that leaders have committed since records may be missing."""

    def view(self, disk: SimDisk, path: str) -> LogView:
        """The log of one of its replicas."""
        return LogView(disk, path)

    @property
    def last(self) -> Entry | None:
        return self.entries[-1] if self.entries else None

    def has_committed(self, entry: Entry) -> bool:
        return entry.identity in self._committed

    def on_appended(self, entry: Entry, where: str) -> None:
        """I-3, I-4: an identity names one batch with one batch before it, in every log, ever."""
        known = self._ids.get(entry.identity)
        if known is None:
            self._ids[entry.identity] = entry
            return
        if (known.end, known.crc) != (entry.end, entry.crc):
            raise Violation(
                "I-3", f"{where}: offset {entry.base} epoch {entry.epoch} names two batches"
            )
        # A log may have records before its start about which its leader could no longer be asked.
        deleted = entry.base <= self.begins
        both = None not in (known.previous, entry.previous) and not deleted
        if both and known.previous != entry.previous:
            raise Violation(
                "I-4",
                f"{where}: {entry.identity} (offset, epoch) follows {entry.previous} here and"
                f" {known.previous} elsewhere",
            )
        if known.previous is None and entry.previous is not None:
            self._ids[entry.identity] = entry

    def on_led(self, epoch: int, node: str, incarnation: int) -> None:
        """I-3: one incarnation of one broker leads in an epoch."""
        known = self._leaders.setdefault(epoch, (node, incarnation))
        if known != (node, incarnation):
            raise Violation(
                "I-3",
                f"{self.name}: leader epoch {epoch} is led by {node} (life {incarnation}) and was"
                f" led by {known[0]} (life {known[1]})",
            )

    def has_led(self, epoch: int, node: str, incarnation: int) -> bool:
        """True if that incarnation was seen to lead in the epoch."""
        return self._leaders.get(epoch) == (node, incarnation)

    def on_log_start(
        self, start: int, view: LogView, where: str, *, leads: bool, retention_bytes: int | None
    ) -> str:
        """I-75: a leader deletes records as requested, and a follower those that a leader has
        deleted. I-74: retention deletes whole segments, and nothing within its size.

        Returns in words how records went that were not deleted before. `retention_bytes` is the
        lowest value that it has ever had; None: without a limit.
        """
        if leads or start > self.begins:
            self._removed_to = max(self._removed_to, start)
        if start <= self.begins:
            return ""
        how = "records deleted by command"
        if not leads or start > self.asked:
            how = "records deleted by retention"
            self._check_retained(start, view, where, retention_bytes)
        self.begins = start
        return how

    def _check_retained(self, start: int, view: LogView, where: str, least: int | None) -> None:
        if least is None:
            raise Violation(
                "I-75",
                f"{where}: its log begins at {start}; records below {self.asked} were to be"
                f" deleted, and no log has begun behind {self.begins}",
            )
        kept = view.kept_from(start)
        if kept is None or kept < least:
            raise Violation(
                "I-74",
                f"{where}: its log begins at {start}, with {kept} bytes in segments from there on;"
                f" retention.bytes was never below {least}",
            )

    def has_deleted(self, end: int) -> bool:
        """True if every record before `end` is deleted, among those that offsets name now."""
        return end <= self._removed_to

    def on_deleted(self, low_watermark: int, witnesses: frozenset[str]) -> None:
        """A leader confirms the deletion, and the `witnesses` were in the ISR."""
        for node in witnesses:
            self.deleted[node] = max(low_watermark, self.deleted.get(node, 0))

    def check_deleted(self, start: int, node: str) -> None:
        """I-75: deleted records do not come back."""
        deleted = self.deleted.get(node, 0)
        if start < deleted and self.excused is None:
            raise Violation(
                "I-75",
                f"{self.name}: the log of {node} begins at {start}, and all below {deleted} was"
                " said to be deleted while it was in the ISR",
            )

    def on_high_watermark(
        self, to: int, view: LogView, where: str, isr: Collection[int] | None = None
    ) -> None:
        """A leader commits everything below `to`; it counts by that ISR (None: an unknown one)."""
        if self.excused is not None:
            self._note_promised(to, view)
            return
        if to <= self.end:
            return
        last = self.last
        if last is not None and not self._has(view, last):
            raise Violation(
                "I-14",
                f"{where}: its leader commits up to {to} and does not hold committed offset"
                f" {last.base} of epoch {last.epoch}",
            )
        for entry in view.entries[bisect_left(view.entries, self.end, key=BASE) :]:
            if entry.end <= to:
                self.entries.append(entry)
                self._committed[entry.identity] = entry
        self.end = to
        for node, end in self._cut_short.items():
            counts = isr is None or broker_id(node) in isr
            if end < to and counts and (not self._always or node in self._replaced):
                # Its last fetch was still under way to the leader when its power went.
                self._lost(node, wiped=node in self._replaced)

    def _note_promised(self, to: int, view: LogView) -> None:
        for entry in reversed(view.entries[: bisect_right(view.entries, to, key=END)]):
            if entry.identity in self.promised or entry.identity in self._committed:
                break
            self.promised[entry.identity] = entry

    @property
    def seen_to(self) -> int:
        """The end of the records that clients may have received."""
        told = (*self.lost.values(), *self.promised.values())
        return max([self.end, *(entry.end for entry in told)])

    def on_unclean(self, epoch: int, view: LogView | None) -> int:
        """The log `view` leads after an election that may cost records, from leader epoch `epoch`
        on: records that it lacks are no longer committed. Returns the number of those entries.
        None: the log is empty.
        """
        self.unclean_epoch, self._alone = epoch, True
        if self.excused is not None:
            return 0
        keep = len(self.entries)
        while keep > 0 and (view is None or not self._leads_with(view, self.entries[keep - 1])):
            keep -= 1
        gone = self.entries[keep:]
        del self.entries[keep:]
        self.lost_uncleanly |= bool(gone)
        for entry in gone:
            if view is None or not self._has(view, entry):  # otherwise it was deleted before
                self.lost[entry.identity] = entry
            del self._committed[entry.identity]
        if gone:
            self.end = gone[0].base
        # Offsets behind that name other records from now on, and those are not deleted.
        self.deleted = {node: min(to, self.end) for node, to in self.deleted.items()}
        self._removed_to = min(self._removed_to, 0 if view is None else view.end)
        self._come_back(view)
        self._kept = self.end
        return len(gone)

    def _come_back(self, view: LogView | None) -> None:
        """The new leader may hold records that an earlier unclean election had cost."""
        for entry in [] if view is None else view.entries:
            if entry.base < self.end:
                continue
            if entry.identity not in self.lost:
                break
            # Behind a gap, at the beginning of the log: earlier records were deleted.
            self.entries.append(entry)
            self._committed[entry.identity] = entry
            self.end = entry.end

    @property
    def can_start_again(self) -> bool:
        """True if a log shows which records have survived."""
        return not self.given_up

    def start_again(self, epoch: int, view: LogView, mark: int, minimum: int) -> None:
        """The ISR of the leader of `epoch`, with the minimum in it, holds the log `view` up to
        `mark`: that is what survives. It is committed from here on, and no excuse permits its loss.
        Earlier leaders count no more.
        """
        for entry in self.entries:
            if not self._has(view, entry):
                self.lost[entry.identity] = entry
        self.entries = [entry for entry in view.entries if entry.end <= mark]
        self._committed = {entry.identity: entry for entry in self.entries}
        self.end = self._kept = mark
        self.judged_from = max(self.seen_to, self.judged_from)
        self.unclean_epoch = max(self.unclean_epoch, epoch)
        self.deleted = {node: min(to, mark) for node, to in self.deleted.items()}
        self._removed_to = min(self._removed_to, view.end)
        self._alone, self.excused, self.min_insync = False, None, minimum
        self.lost_on.clear()
        self._cut_short.clear()

    def on_late_high_watermark(self, to: int, view: LogView) -> None:
        """A leader from before the last unclean election has not learned of it: records that it
        commits are lost, unless the new leader holds them too.
        """
        for entry in view.entries[bisect_left(view.entries, self._kept, key=BASE) :]:
            if entry.end <= to and entry.identity not in self._committed:
                self.lost[entry.identity] = entry
                self.lost_uncleanly = True

    def on_in_sync(self, members: int) -> None:
        """The number of members of the ISR of a leader that has recovered."""
        if members >= self.min_insync:
            self._alone = False

    def on_given_up(self, by: str, life: int, gone: list[Entry], believed: int) -> None:
        """A replica has truncated these for another leader's history; it took all records below
        `believed` for committed (I-53).
        """
        gone = [e for e in gone if e.identity in self._committed or e.identity in self.lost]
        if gone:
            self.given_up_by.append(GivenUp(by, life, tuple(gone), believed))

    def on_reports_forgotten(self) -> None:
        self.given_up_by.clear()
        self.reports_forgotten = True

    def check_believed(self, mark: int, view: LogView, start: int, where: str) -> None:
        """I-13: records below a follower's high watermark are committed, and the follower holds
        them.
        """
        if self.excused is not None:
            return
        if mark > self.end:
            raise Violation("I-13", f"{where}: it believes {mark}, committed is {self.end}")
        at = bisect_right(self.entries, mark, key=END)
        if at > 0 and (last := self.entries[at - 1]).base >= start and not view.holds(last):
            raise Violation(
                "I-13",
                f"{where}: it believes {mark} and does not hold committed offset {last.base} of"
                f" epoch {last.epoch}",
            )

    def on_damaged(self, node: str, entry: Entry) -> None:
        """The disk of `node` holds other bytes than those that were written."""
        self.damaged[node] = entry

    def ends_a_cut(self, node: str, opened: int) -> bool:
        """True if a start that opens a log of this end has finished a truncation at damage: the
        process before it had begun one, had lowered the recovery point, and ended.
        """
        damage = self.damaged.get(node)
        return damage is not None and damage.base >= opened

    def give_up(self, why: str) -> None:
        self.excused = self.permitted = why
        self.given_up = True

    def on_cut(
        self, gone: list[Entry], node: str, what: str, *, start: int, unread: int | None
    ) -> bool:
        """I-41: a truncation takes no committed record, except to heal damage. Healing may truncate
        from the damage on, or from the first segment that the disk has misread (`unread`), with the
        batch over the log's `start`. Returns whether it heals. Records below its `start` may go.
        """
        damage, healed_from = self.damaged.get(node), unread
        if damage is not None and damage.identity in {entry.identity for entry in gone}:
            healed_from = damage.base if unread is None else min(damage.base, unread)
            del self.damaged[node]
        for entry in gone:
            heals = healed_from is not None and entry.end > healed_from
            lives = entry.end > start and entry.identity in self._committed
            if lives and not heals and self.excused is None:
                raise Violation(
                    "I-41", f"{what}, and offset {entry.base} of epoch {entry.epoch} was committed"
                )
        if healed_from is None:
            return False
        if self.last in gone:
            # Its copies are as lost as with the power (I-54), until it has copied the records
            # again.
            self._lost(node)
        return True

    def _has(self, view: LogView, entry: Entry) -> bool:
        """True if a log holds the entry, or goes on behind it where it is deleted. A log may have
        another history before its start, as a leader can no longer be asked about that.
        """
        return view.holds(entry) or (entry.end <= view.end and self.has_deleted(entry.end))

    def _leads_with(self, view: LogView, entry: Entry) -> bool:
        """True likewise for an unclean leader, whose other history behind its start may be
        committed.
        """
        return view.holds(entry) or (self._has(view, entry) and entry.end <= view.start)

    def check_complete(self, view: LogView, invariant: str, who: str) -> None:
        """`who` may lead, so its log must hold every committed record."""
        last = self.last
        if last is None or self.excused is not None or self._has(view, last):
            return
        raise Violation(
            invariant,
            f"{self.name}: {who} ends at {view.end} and does not hold committed offset {last.base}"
            f" of epoch {last.epoch} (committed up to {self.end})",
        )

    def on_power_lost(
        self, node: str, before: LogView, after: LogView, *, counted: bool, wiped: bool
    ) -> None:
        """The logs of a machine's disk before and after a loss of power. `counted`: it was in the
        ISR or eligible; `wiped`: it is a new disk.
        """
        if wiped:
            self.damaged.pop(node, None)
            self.deleted.pop(node, None)
        last = self.last
        if after.end < before.end:
            self._cut_short[node] = after.end
        if last is None or not before.holds(last) or after.holds(last):
            return
        if self._always and counted and not wiped and not self._alone:
            raise Violation(
                "I-93",
                f"{self.name}: {node} was in the ISR or the ELR and lost committed offset"
                f" {last.base} with the power under flush.policy=always",
            )
        self._lost(node, wiped=wiped)

    def _lost(self, node: str, *, wiped: bool = False) -> None:
        may = self.lost_on[node] = wiped or not self._always
        enough = self.min_insync if self._left is None else min(self.min_insync, self._left)
        if self._alone or (may and len(self.lost_on) >= enough):
            self._permit()

    def _permit(self) -> None:
        self.excused = f"{', '.join(self.lost_on)} lost unflushed records with the power"
        self.permitted = self.excused

    def on_replaced(self, old: str, new: str, view: LogView) -> None:
        """Another machine is the same broker now. It may lack everything that the one before it got
        since the copy, whatever the flush policy (P-71).
        """
        self.deleted.pop(old, None)
        self.lost_on.pop(old, None)
        self._cut_short.pop(old, None)
        self._cut_short[new] = view.end
        self._replaced.add(new)
        if self.last is not None and not view.holds(self.last):
            self._lost(new, wiped=True)

    def on_members(self, isr: int, elr: int, *, removed: bool) -> None:
        """The numbers of members of the ISR and the ELR; `removed`: replicas have been
        taken away.
        """
        if removed:
            self._left = isr + elr
        elif isr >= self.min_insync:
            self._left = None

    def on_left_with(self, members: Collection[str]) -> None:
        """Replicas were taken away, and only these members of the ISR and the ELR remain. The
        administrator need not have known what had become of them (I-86).
        """
        if members and self.excused is None and all(map(self.lost_on.get, members)):
            self._permit()

    def on_removed(self, node: str) -> None:
        """The node's replica is removed, and its lost records are held by others."""
        self.deleted.pop(node, None)
        self.lost_on.pop(node, None)
        self._cut_short.pop(node, None)
        if (damage := self.damaged.pop(node, None)) is not None:
            self._removed_with[node] = damage

    def on_added_again(self, node: str, view: LogView) -> None:
        """A node whose replica had been removed is seen with a log, an earlier one if it was down
        at the removal.
        """
        damage = self._removed_with.pop(node, None)
        if damage is not None and view.holds(damage):
            self.damaged[node] = damage

    def on_holds_again(self, node: str, view: LogView) -> None:
        if self._cut_short.get(node, view.end) < view.end:
            del self._cut_short[node]
        if node in self.lost_on and (self.last is None or self._has(view, self.last)):
            del self.lost_on[node]
