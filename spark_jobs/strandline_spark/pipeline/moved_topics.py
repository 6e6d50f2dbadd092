"""Topics that moved from one silver table of a pipeline to another, so both have their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_spark.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.pipeline.config import Pipeline


def check_topics(part: Pipeline, pipeline: Pipeline, silver: FencedTable) -> None:
    """Raises TableError if a silver table has records of a topic that another one takes now."""
    for topic, other in moved_topics(part, pipeline, silver):
        raise TableError(
            f"{silver.path} has records of the topic {topic}, which [[silver]] {other} of"
            f" {part.file} takes now: `strandline-spark rebuild silver {part.file} --table"
            f" {part.part}` makes it again without them, or name the topic where it was"
        )


def moved_topics(
    part: Pipeline, pipeline: Pipeline, table: FencedTable
) -> Iterator[tuple[str, str | None]]:
    """Yields each topic of which the table has files, and the other silver table that takes it."""
    others = [one for one in pipeline.parts if one.part != part.part]
    if not others:
        return
    for topic in sorted(table.listed().topics.unique().to_pylist()):
        yield from ((topic, one.part) for one in others if one.takes(topic))
