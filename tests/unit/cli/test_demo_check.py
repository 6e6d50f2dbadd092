"""The demo's proof: every acknowledged record against the table, and the input it is made from."""

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from strandline_cli.demo.flights_input import find_input, flight_key
from strandline_cli.demo.ledger import Ledger, PartitionLedger
from strandline_cli.demo.table_check import Findings, compare
from strandline_cli.errors import ClusterError

Row = tuple[int, int, bytes | None]


def _table(rows: list[Row]) -> pa.Table:
    partitions, offsets, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def _ledger(rows: list[Row]) -> Ledger:
    ledger = Ledger()
    for partition, offset, value in rows:
        assert value is not None
        ledger.acknowledge(partition, offset, value)
    return ledger


_SENT: list[Row] = [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c"), (1, 1, b"d"), (1, 2, b"")]


def test_a_table_with_exactly_the_acknowledged_records_is_perfect() -> None:
    found = compare(_ledger(_SENT), _table(list(reversed(_SENT))))
    assert found == Findings(in_table=5, lost=0, duplicated=0, gaps=0)
    assert found.perfect


def test_a_missing_record_is_lost_and_leaves_a_gap() -> None:
    found = compare(_ledger(_SENT), _table([row for row in _SENT if row[:2] != (1, 1)]))
    assert found == Findings(in_table=4, lost=1, duplicated=0, gaps=1)


def test_a_missing_last_record_is_lost_without_a_gap() -> None:
    found = compare(_ledger(_SENT), _table(_SENT[:-1]))
    assert found == Findings(in_table=4, lost=1, duplicated=0, gaps=0)


def test_a_missing_first_record_is_a_gap() -> None:
    found = compare(_ledger(_SENT), _table(_SENT[1:]))
    assert found == Findings(in_table=4, lost=1, duplicated=0, gaps=1)


def test_a_changed_value_is_a_lost_record() -> None:
    rows = [*_SENT[:-1], (1, 2, b"changed")]
    assert compare(_ledger(_SENT), _table(rows)).lost == 1


def test_a_null_in_place_of_a_value_is_a_lost_record() -> None:
    rows: list[Row] = [*_SENT[:-1], (1, 2, None)]
    assert compare(_ledger(_SENT), _table(rows)).lost == 1


def test_an_offset_that_stands_twice_is_duplicated() -> None:
    found = compare(_ledger(_SENT), _table([*_SENT, (0, 1, b"b")]))
    assert found == Findings(in_table=6, lost=0, duplicated=1, gaps=0)


def test_a_record_that_nobody_was_told_about_is_a_duplicate_of_a_retry() -> None:
    assert compare(_ledger(_SENT), _table([*_SENT, (0, 2, b"b")])).duplicated == 1


def test_a_record_of_unknown_outcome_may_stand_in_the_table() -> None:
    ledger = _ledger(_SENT)
    ledger.fail(may_have_been_written=True)
    assert compare(ledger, _table([*_SENT, (0, 2, b"e")])).perfect
    assert compare(ledger, _table([*_SENT, (0, 2, b"e"), (0, 3, b"f")])).duplicated == 1


def test_a_rejected_record_must_not_stand_in_the_table() -> None:
    ledger = _ledger(_SENT)
    ledger.fail(may_have_been_written=False)
    assert compare(ledger, _table([*_SENT, (0, 2, b"e")])).duplicated == 1


def test_an_empty_table_has_lost_everything() -> None:
    assert compare(_ledger(_SENT), _table([])) == Findings(0, 5, 0, 0)


def test_offsets_that_the_broker_forgot_are_filled_in_from_their_neighbours() -> None:
    ledger = PartitionLedger(offsets=[-1, 5, 6, -1, -1, 9, -1], values=[b""] * 7)
    assert ledger.known_offsets() == [4, 5, 6, 7, 8, 9, 10]


def test_lines_of_a_file_become_records_without_their_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\r\n\ntwo\nno end")
    source = find_input(path, small=False)
    records = list(source.records())
    assert [r.value for r in records] == [b"one", b"", b"two", b"no end"]
    assert {r.key for r in records} == {None}
    assert records[-1].consumed == source.total()


def test_small_takes_the_first_twenty_thousand_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"line\n" * 20_005)
    assert sum(1 for _ in find_input(path, small=True).records()) == 20_000
    assert sum(1 for _ in find_input(path, small=False).records()) == 20_005


def test_a_flight_is_keyed_by_carrier_and_number() -> None:
    line = b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10"
    assert flight_key(line) == b"UA1545"


@pytest.mark.parametrize("content", [None, b""])
def test_an_input_without_lines_is_refused_with_the_flag_to_use(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "lines"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ClusterError, match="--input"):
        find_input(path, small=False)
