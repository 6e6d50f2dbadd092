"""The checks of a gold step's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.errors import OptionError
from strandline_spark.parsing.zones import Zone
from strandline_spark.pipeline.durations import DAY_US, duration_us
from strandline_spark.pipeline.steps import GoldStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.pipeline.keys import GoldKeys

_WINDOWS_MAX: Final = 1_000_000
"""Limit of hopping windows for a row."""
_IDLE_AFTER_MAX_US: Final = 6 * DAY_US


def checked_step(step: GoldKeys, table: str, line: int) -> GoldStep:
    where = f"[[gold]] {step.name}"
    if (step.window is None) == (step.session is None):
        raise OptionError(f"{where}: give either window (and slide) or session (and session_key)")
    if step.slide is not None and step.window is None:
        raise OptionError(f"{where}: slide is for windows, and a session has none; leave it out")
    if (step.session is None) != (not step.session_key):
        raise OptionError(f"{where}: session and session_key belong together; give both or neither")
    window, slide, session = (
        None if text is None else duration_us(f"{where}, {key}", text)
        for key, text in (("window", step.window), ("slide", step.slide), ("session", step.session))
    )
    if window is not None and slide is not None and slide > window:
        raise OptionError(
            f"{where}, slide = {step.slide!r} is longer than window = {step.window!r}: rows would"
            " fall between windows"
        )
    if window is not None and slide is not None and window > _WINDOWS_MAX * slide:
        raise OptionError(
            f"{where}, slide = {step.slide!r}: each row would be in {window // slide:,} windows of"
            f" {step.window!r}; give a slide that makes them {_WINDOWS_MAX:,} at the most"
        )
    offset = 0
    if step.offset is not None:
        offset = duration_us(f"{where}, offset", step.offset, least=0)
    _check_place(where, step, window, slide, offset)
    if step.late == "update" and step.session is not None:
        raise OptionError(
            f'{where}, late = "update": a late row may join sessions that are closed, and only'
            " windows are computed again; leave late out, or give window in place of session"
        )
    delays = _delays(where, step.watermark)
    if step.sql.strip() == "":
        raise OptionError(f"{where}, sql: it is empty; give a SELECT over the view silver")
    return GoldStep(
        name=step.name,
        table=table,
        sql=step.sql,
        line=line,
        watermark=max(delays.values()),
        delays=() if isinstance(step.watermark, str) else tuple(delays.items()),
        idle_after=_idle_after(where, step.idle_after),
        window=window,
        slide=slide,
        offset=offset,
        zone=step.zone,
        session=session,
        updates=step.late == "update",
        session_key=tuple(step.session_key),
    )


def check_delays(step: GoldStep, topics: Sequence[str]) -> None:
    """Raises OptionError unless a watermark by topic names each topic of the silver table."""
    if not step.delays:
        return
    where, named = f"[[gold]] {step.name}, watermark", [topic for topic, _ in step.delays]
    for topic in named:
        if topic not in topics:
            raise OptionError(
                f"{where}: {topic!r} is no topic of the step's silver table, which has"
                f" {', '.join(topics)}; take it out"
            )
    for topic in topics:
        if topic not in named:
            raise OptionError(
                f"{where}: the topic {topic!r} of the step's silver table has none; give each topic"
                " one, or one duration for all"
            )


def _delays(where: str, given: str | dict[str, str]) -> dict[str, int]:
    """Returns the delay of each topic; of the topic "" if one counts for all."""
    if isinstance(given, str):
        return {"": duration_us(f"{where}, watermark", given, least=0)}
    if not given:
        raise OptionError(f"{where}, watermark = {{}}: give a duration, or one for each topic")
    return {
        topic: duration_us(f"{where}, watermark of {topic!r}", text, least=0)
        for topic, text in given.items()
    }


def _idle_after(where: str, given: str | None) -> int | None:
    if given is None:
        return None
    idle_after = duration_us(f"{where}, idle_after", given)
    if idle_after > _IDLE_AFTER_MAX_US:
        raise OptionError(
            f"{where}, idle_after = {given!r}: give 6 days at the most; silver's log"
            " says for a week when rows came"
        )
    return idle_after


def _check_place(
    where: str, step: GoldKeys, window: int | None, slide: int | None, offset: int
) -> None:
    if window is None:
        for key, value in (("zone", step.zone), ("offset", step.offset)):
            if value is not None:
                raise OptionError(
                    f"{where}, {key} = {value!r}: it places windows, and a session has none; leave"
                    " it out"
                )
        return
    if offset >= (slide or window):
        raise OptionError(
            f"{where}, offset = {step.offset!r}: a window begins every"
            f" {step.slide or step.window!r}; give less than that"
        )
    if step.zone is None:
        return
    try:
        Zone(step.zone)
    except OptionError as why:
        raise OptionError(f"{where}, {why}") from why
    for key, text, length in (("window", step.window, window), ("slide", step.slide, slide)):
        if length is not None and length % DAY_US != 0:
            raise OptionError(
                f"{where}, {key} = {text!r}: with a zone it has to be whole days or weeks; for"
                " hours that begin at another minute leave out zone and give offset"
            )
