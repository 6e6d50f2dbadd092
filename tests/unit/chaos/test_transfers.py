"""Mutated books of transfers: the judge finds each kind of wrong, and nothing in a good book.

Each mutation changes one fact. The good book has a committed, an aborted and two unknown transfers,
one of which is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_chaos.transfers.book import Book, NotSaid, Reading
from strandline_chaos.transfers.judge import TRANSFER_ANOMALIES, TransferVerdict, judge_transfers
from strandline_chaos.transfers.legs import (
    CorruptLeg,
    Leg,
    Mover,
    Transfer,
    decode_leg,
    partition_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 2
SAID = (
    "ready",
    "begun a-1 0 1 5",
    "committed a-1",
    "begun a-2 1 2 7",
    "aborted a-2",
    "begun b-1 2 3 9",
    "unknown b-1",
    "begun b-2 0 3 2",
    "unknown b-2",
)
# Offsets 1 and 3 are markers; a-2 was at 2@0 and 2@1, and is not given to anybody.
GIVEN = (
    "leg 0 0 a-1 0 -5",
    "leg 1 0 a-1 1 5",
    "at 0 2",
    "at 1 2",
    "leg 0 4 b-1 2 -9",
    "leg 1 4 b-1 3 9",
    "at 0 6",
    "at 1 6",
)
READERS = ("x", "y")


def good() -> Book:
    book = Book(readings={who: Reading() for who in READERS})
    for line in SAID:
        book.hear("a", line)
    for who in READERS:
        for line in GIVEN:
            book.hear(who, line)
    book.cut({0: 1, 1: 1}, 1, is_quiet=False)
    book.cut({0: 3, 1: 3}, 2, is_quiet=True)
    book.cut({0: 6, 1: 6}, 2, is_quiet=True)
    return book


def judged(change: Callable[[Book], object] = lambda _: None) -> TransferVerdict:
    book = good()
    change(book)
    verdict = judge_transfers(book, PARTITIONS)
    assert set(verdict.anomalies) == set(TRANSFER_ANOMALIES)
    return verdict


def leg_at(book: Book, who: str, number: int, partition: int, offset: int, leg: Leg) -> None:
    book.readings[who].legs[number] = (partition, offset, leg)


def test_a_good_book_is_sound() -> None:
    verdict = judged()
    assert verdict.word == "sound", verdict
    assert (verdict.begun, verdict.committed, verdict.aborted) == (4, 1, 1)
    assert (verdict.unknown, verdict.unknown_there) == (2, 1)
    assert (verdict.cuts, verdict.quiet_cuts, verdict.readers) == (3, 2, 2)


def test_one_leg_alone_is_torn_whatever_its_outcome() -> None:
    for number in range(4):

        def change(book: Book, number: int = number) -> None:
            del book.readings["x"].legs[number]

        assert "torn" in judged(change).broken


def test_a_transfer_that_a_cut_after_its_answer_halves_is_torn() -> None:
    def change(book: Book) -> None:
        book.cuts[0] = replace(book.cuts[0], ends={0: 1, 1: 0})

    assert judged(change).broken == ("torn",)


def test_a_transfer_that_was_not_answered_before_a_cut_may_be_halved_by_it() -> None:
    def change(book: Book) -> None:
        book.cuts[0] = replace(book.cuts[0], ends={0: 1, 1: 0}, answered=0)

    assert judged(change).word == "sound"


def test_a_committed_transfer_above_the_high_watermarks_is_late() -> None:
    def change(book: Book) -> None:
        book.cuts[0] = replace(book.cuts[0], ends={0: 0, 1: 0})

    assert judged(change).broken == ("late",)


def test_a_quiescent_cut_must_balance() -> None:
    def change(book: Book) -> None:
        book.cuts[1] = replace(book.cuts[1], ends={0: 5, 1: 3})

    verdict = judged(change)
    assert verdict.broken == ("total",)
    assert verdict.anomalies["total"].examples[0] == "x: cut 1 sums to -9"


def test_a_quiescent_cut_has_what_was_committed_before_it() -> None:
    def change(book: Book) -> None:
        book.cuts[1] = replace(book.cuts[1], ends={0: 0, 1: 0}, answered=1)
        del book.cuts[0]

    assert judged(change).broken == ("late", "total")


def test_a_quiescent_cut_has_nothing_of_later_transfers() -> None:
    def change(book: Book) -> None:
        for line in ("begun a-3 0 1 4", "committed a-3"):
            book.hear("a", line)
        for who in READERS:
            for line in ("leg 0 6 a-3 0 -4", "leg 1 6 a-3 1 4", "at 0 8", "at 1 8"):
                book.hear(who, line)
        book.cut({0: 7, 1: 7}, 3, is_quiet=True)

    assert judged(change).word == "sound"


def without(transfer: str) -> Callable[[Book], None]:
    def change(book: Book) -> None:
        for reading in book.readings.values():
            reading.legs = [each for each in reading.legs if each[2].transfer != transfer]

    return change


def test_a_committed_transfer_that_no_reader_has_is_lost() -> None:
    assert judged(without("a-1")).broken == ("total", "lost")


def test_an_unknown_transfer_may_be_missing() -> None:
    assert judged(without("b-1")).word == "sound"


def test_an_aborted_transfer_that_is_read_is_found() -> None:
    def change(book: Book) -> None:
        for reading in book.readings.values():
            for number, leg in enumerate(book.begun["a-2"].legs):
                place = (partition_of(leg.account, PARTITIONS), 2, leg)
                reading.legs.insert(2 + number, place)

    assert judged(change).broken == ("total", "aborted_read")


def test_one_leg_at_two_offsets_is_duplicated() -> None:
    def change(book: Book) -> None:
        for reading in book.readings.values():
            reading.legs += [(0, 5, Leg("b-1", 2, -9))]

    assert judged(change).broken == ("total", "duplicated")


@pytest.mark.parametrize(
    "leg", [Leg("c-1", 0, -5), Leg("a-1", 0, -6), Leg("corrupt", -1, 0)], ids=str
)
def test_a_leg_that_was_never_sent_is_a_phantom(leg: Leg) -> None:
    assert "phantom" in judged(lambda b: leg_at(b, "x", 0, 0, 0, leg)).broken


def test_a_leg_in_the_partition_of_another_account_is_a_phantom() -> None:
    def change(book: Book) -> None:
        for who in READERS:
            leg_at(book, who, 0, 1, 0, Leg("a-1", 0, -5))
            leg_at(book, who, 1, 1, 1, Leg("a-1", 1, 5))

    assert "phantom" in judged(change).broken


def test_a_reader_that_goes_back_is_found() -> None:
    def change(book: Book) -> None:
        for reading in book.readings.values():
            reading.legs.append(reading.legs[0])

    assert judged(change).broken == ("backwards",)
    assert judged(lambda b: b.readings["x"].legs.insert(1, b.readings["x"].legs[0])).broken == (
        "backwards",
    )


def test_readers_with_different_records_disagree() -> None:
    def change(book: Book) -> None:
        leg_at(book, "y", 2, 0, 5, Leg("b-1", 2, -9))

    assert judged(change).broken == ("disagree",)


def test_readers_are_compared_below_the_last_high_watermarks() -> None:
    def change(book: Book) -> None:
        book.hear("a", "begun a-3 0 1 4")
        for line in ("leg 0 6 a-3 0 -4", "leg 1 6 a-3 1 4"):
            book.hear("x", line)

    assert judged(change).word == "sound"


def test_a_high_watermark_that_falls_is_found() -> None:
    def change(book: Book) -> None:
        book.cuts[0] = replace(book.cuts[0], ends={0: 4, 1: 1})

    assert judged(change).broken == ("end_fell",)


def test_a_transaction_that_stays_open_is_stuck() -> None:
    verdict = judge_transfers(good(), PARTITIONS, ["partition 0 is stuck"])
    assert verdict.broken == ("stuck",)
    assert verdict.document()["verdict"] == "broken"


def test_a_reader_that_did_not_reach_the_end_gives_no_verdict() -> None:
    verdict = judged(lambda b: b.readings["x"].at.update({1: 5}))
    assert verdict.word == "incomplete"
    assert "x did not reach" in str(verdict.document()["incomplete"])


def test_a_run_without_commits_or_quiescence_gives_no_verdict() -> None:
    def noisy(book: Book) -> None:
        book.cuts[:] = [replace(cut, is_quiet=False) for cut in book.cuts]

    assert judged(noisy).word == "incomplete"
    assert judge_transfers(Book(), PARTITIONS).word == "incomplete"


def test_lines_that_nobody_may_say_are_refused() -> None:
    for line in ("", "begun a 1 2", "committed nobody", "leg 0 0 a 0 x", "at 0", "hello"):
        with pytest.raises(NotSaid, match="x said"):
            good().hear("x", line)
    with pytest.raises(NotSaid, match="ends once"):
        good().hear("x", "aborted a-1")
    with pytest.raises(NotSaid):
        good().hear("a mover", "at 0 1")


def test_a_leg_is_read_as_it_was_written() -> None:
    leg = Leg("mover-1-7", 3, -50)
    assert decode_leg(leg.encode()) == leg
    for wrong in (None, b"", b"mover-1-7 3", b"mover-1-7 3 x", b"m 03 1", b"\xff 1 1"):
        with pytest.raises(CorruptLeg):
            decode_leg(wrong)


def test_the_legs_of_a_transfer_sum_to_nothing_and_movers_repeat_themselves() -> None:
    drawn = [Mover("m", 20, 7).next() for _ in range(2)]
    assert drawn[0] == drawn[1]
    mover = Mover("m", 20, 7)
    transfers = [mover.next() for _ in range(200)]
    assert any(aborts for _, aborts in transfers)
    for transfer, _ in transfers:
        assert isinstance(transfer, Transfer)
        assert transfer.source != transfer.target
        assert sum(leg.delta for leg in transfer.legs) == 0
