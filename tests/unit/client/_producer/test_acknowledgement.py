"""A blocking acknowledgement makes what is waited by only when somebody waits."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline._blocking.background import BlockingLoop
from strandline._blocking.send_queue import Acknowledgement
from strandline.errors import RecordTooLarge
from strandline.types import RecordMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_runtime.runtime import Runtime

RUNTIME = cast("Runtime", None)  # used where a callback raises
WHERE = RecordMetadata("t", 0, 7, 1, 2)
IN_TIME_S = 20.0


@pytest.fixture
def loop() -> Iterator[BlockingLoop]:
    made = BlockingLoop("producer")
    yield made
    made.close()


def by_result(record: Acknowledgement) -> object:
    return record.result(IN_TIME_S)


def by_exception(record: Acknowledgement) -> object:
    assert record.exception(IN_TIME_S) is None
    return record.result()


def by_callback(record: Acknowledgement) -> object:
    heard: concurrent.futures.Future[Any] = concurrent.futures.Future()
    record.add_done_callback(heard.set_result)  # which fails if it is called twice
    assert heard.result(IN_TIME_S) is record
    return record.result()


def by_wait(record: Acknowledgement) -> object:
    done, late = concurrent.futures.wait([record], timeout=IN_TIME_S)
    assert (done, late) == ({record}, set())
    return record.result()


@pytest.mark.parametrize("look", [by_result, by_exception, by_callback, by_wait])
def test_an_outcome_and_who_waits_for_it_never_miss_each_other(
    loop: BlockingLoop, look: Callable[[Acknowledgement], object]
) -> None:
    for _ in range(500):
        record = Acknowledgement(loop)
        loop.call_soon(lambda to=record: to.settle(None, WHERE, RUNTIME))  # type: ignore[misc]
        assert look(record) == WHERE
        assert record.is_told


def test_a_record_that_nobody_waits_for_costs_no_condition(loop: BlockingLoop) -> None:
    record = Acknowledgement(loop)
    assert not record.done()
    record.settle(None, WHERE, RUNTIME)
    assert record.done()
    assert not record.is_told
    assert record.result() == WHERE
    assert record.is_told
    assert "_condition" not in record.__dict__


def test_a_failure_is_raised_to_whoever_asks(loop: BlockingLoop) -> None:
    record = Acknowledgement(loop)
    error = RecordTooLarge("too large")
    heard: list[Any] = []
    record.on_delivery = lambda *fate: heard.append((fate, record.done()))
    record.settle(error, None, RUNTIME)
    assert heard == [((error, None), False)], "the callback is the first to hear"
    with pytest.raises(RecordTooLarge):
        record.result(0)
    assert record.exception() is error
    assert not record.cancel()
    assert not record.cancelled()
