"""The page: a summary of all tables, then a section for each. The page is one file without scripts,
which loads nothing and forbids loading to the browser.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from strandline_spark.report import words
from strandline_spark.report.accounts import Kind
from strandline_spark.report.markup import Content, Element, tag, to_html
from strandline_spark.report.sections import about_table, name_of, problems_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_spark.report.sections import Findings

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_PROBLEMS_MAX: Final = 12


def render(found: Sequence[Findings], *, now_ms: int) -> str:
    """Returns the HTML document."""
    names = ", ".join(name_of(one.table.path) for one in found)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", f"Strandline report: {names}"),
        tag("style", files(__package__).joinpath("style.css").read_text("utf-8")),
    )
    body = tag(
        "body",
        tag(
            "header",
            tag("p", "Strandline", class_="brand"),
            tag("h1", "Tables report"),
            tag("p", f"made {words.moment(now_ms)} UTC", class_="quiet"),
        ),
        tag(
            "main",
            _verdict(found),
            _overview(found),
            *(about_table(one, _anchor(at)) for at, one in enumerate(found)),
        ),
        tag(
            "footer",
            "All times are in UTC. Figures are those that each commit stated when it was made;"
            " strandline-spark verify proves them against the rows.",
        ),
    )
    return to_html(tag("html", head, body, lang="en"))


def _verdict(found: Sequence[Findings]) -> Element:
    problems = [(one, text) for one in found for text in problems_of(one)]
    if not problems:
        text = "Every range begins where the one before ended, and nothing is lost."
        if any(one.table.kind is Kind.QUARANTINE and one.table.rows for one in found):
            text = text[:-1] + ". Some records did not parse: they are in quarantine."
        return tag("p", tag("strong", "Good. "), text, class_="verdict good")
    items: list[Content] = [
        tag("li", tag("b", f"{name_of(one.table.path)}: "), text)
        for one, text in problems[:_PROBLEMS_MAX]
    ]
    if len(problems) > _PROBLEMS_MAX:
        items.append(tag("li", f"and {len(problems) - _PROBLEMS_MAX} more"))
    return tag(
        "div",
        tag("p", tag("strong", "Look at this.")),
        tag("ul", *items),
        class_="verdict bad",
    )


def _overview(found: Sequence[Findings]) -> Element:
    cards = []
    for at, one in enumerate(found):
        table = one.table
        facts = f"{words.plural(len(table.files), 'file')}, {words.size(table.size)}"
        cards.append(
            tag(
                "a",
                tag("span", table.kind.value, class_=f"kind {table.kind.value}"),
                tag("span", name_of(table.path), class_="title"),
                tag("span", words.number(table.rows), class_="big"),
                tag("span", f"{'row' if table.rows == 1 else 'rows'} · {facts}", class_="quiet"),
                href=f"#{_anchor(at)}",
                class_="card",
            )
        )
    return tag("nav", *cards, class_="cards")


def _anchor(at: int) -> str:
    return f"table-{at + 1}"
