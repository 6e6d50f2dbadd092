"""Several silver tables of one pipeline: each topic has one, and each mistake is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strandline_spark.errors import OptionError
from strandline_spark.pipeline.config import parse_pipeline
from strandline_spark.silver.range_output import SilverPlan, SilverPlans

if TYPE_CHECKING:
    from strandline_spark.pipeline.config import Pipeline

SHOP = """
[pipeline]
name = "shop"
topics = ["orders", "clicks", "returns"]

[[silver]]
name = "orders"
topics = ["orders", "returns"]
format = "json"
event_time = "at"
on_new_field = "add"

[silver.columns]
at = "timestamp"
price = "decimal(10,2)"

[[silver]]
name = "clicks"
topics = ["clicks"]
format = "csv"
event_time = "timestamp"
quarantine_limit = 3

[silver.columns]
page = "string"
n = { type = "bigint", trim = true }

[[gold]]
name = "sales"
silver = "orders"
window = "1 day"
watermark = "1 hour"
sql = "SELECT window_start, window_end, sum(price) AS total FROM silver GROUP BY ALL"

[[gold]]
name = "views"
silver = "clicks"
window = "1 hour"
watermark = "1 hour"
sql = "SELECT window_start, window_end, sum(n) AS n FROM silver GROUP BY ALL"
"""


def read(text: str) -> Pipeline:
    return parse_pipeline(text, "/srv/pipeline.toml")


def test_each_table_has_its_own_topics_rules_folders_and_gold() -> None:
    orders, clicks = read(SHOP).parts
    assert [(one.part, one.silver_topics) for one in (orders, clicks)] == [
        ("orders", ("orders", "returns")),
        ("clicks", ("clicks",)),
    ]
    assert {one.topics for one in (orders, clicks)} == {("orders", "clicks", "returns")}
    assert [orders.takes(topic) for topic in orders.topics] == [True, False, True]
    assert (orders.silver, orders.quarantine) == (
        "/srv/lake/silver_orders",
        "/srv/lake/quarantine_orders",
    )
    assert clicks.silver == "/srv/lake/silver_clicks"
    assert (list(orders.parse.columns), list(clicks.parse.columns)) == (
        ["at", "price"],
        ["page", "n"],
    )
    assert (orders.adds_columns, clicks.adds_columns) == (True, False)
    assert (orders.limit.rows, clicks.limit.rows) == (None, 3)
    assert [[step.name for step in one.gold] for one in (orders, clicks)] == [["sales"], ["views"]]
    assert (orders.silver_step, clicks.silver_step) == ("silver orders", "silver clicks")
    assert orders.tables == (
        ("bronze", "/srv/lake/bronze"),
        ("silver orders", "/srv/lake/silver_orders"),
        ("quarantine orders", "/srv/lake/quarantine_orders"),
        ("silver clicks", "/srv/lake/silver_clicks"),
        ("quarantine clicks", "/srv/lake/quarantine_clicks"),
        ("gold sales", "/srv/lake/gold/sales"),
        ("gold views", "/srv/lake/gold/views"),
    )


def test_the_docs_have_a_sound_file_of_several_tables() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guide" / "spark" / "pipelines.md").read_text()
    text = page.partition("## Several silver tables")[2].partition("```toml\n")[2]
    found = read(text.partition("```")[0])
    assert [one.part for one in found.parts] == ["orders", "clicks"]


def test_one_table_without_a_name_takes_all_topics() -> None:
    for header in ("[silver]", "[[silver]]"):
        text = SHOP[: SHOP.index('[[silver]]\nname = "clicks"')]
        text = text.replace('name = "orders"\ntopics = ["orders", "returns"]\n', "")
        found = read(text.replace("[[silver]]", header))
        assert found.parts == (found,)
        assert (found.part, found.silver_topics, found.silver_step) == (
            None,
            found.topics,
            "silver",
        )
        assert found.silver == "/srv/lake/silver"
        assert found.takes("a topic of earlier days")


def test_a_table_and_its_quarantine_may_have_folders_of_their_own() -> None:
    text = SHOP.replace('format = "csv"', 'format = "csv"\ntable = "else/clicks"')
    assert [(one.silver, one.quarantine) for one in read(text).parts[1:]] == [
        ("/srv/else/clicks", "/srv/else/quarantine_clicks")
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('name = "orders"', "", 6, r"\[\[silver\]\] 1, name#: it has none, and each of several"),
        ('topics = ["clicks"]', "", 17, r"\[\[silver\]\] clicks, topics#: it has none"),
        ('name = "clicks"', 'name = "orders"', 7, r"\[\[silver\]\] orders, name#: two tables"),
        ('name = "clicks"', 'name = "a b"', 18, r"\[\[silver\]\] 2, name# = 'a b'"),
        (
            'topics = ["clicks"]',
            'topics = ["click"]',
            19,
            r"clicks, topics#: 'click' is none of \[pipeline\] topics, orders, clicks, returns",
        ),
        (
            'topics = ["clicks"]',
            'topics = ["clicks", "orders"]',
            19,
            r"clicks, topics#: 'orders' is in \[\[silver\]\] orders already",
        ),
        (
            '"clicks", "returns"]',
            '"clicks", "returns", "more"]',
            4,
            r"\[pipeline\] topics#: 'more' is in no \[\[silver\]\]; name it",
        ),
        ('silver = "clicks"', "", 35, r"\[\[gold\]\] views#: several .* one of orders, clicks"),
        (
            'silver = "clicks"',
            'silver = "click"',
            37,
            r"\[\[gold\]\] views, silver# = 'click' is no silver table: there are orders, clicks",
        ),
        ('format = "csv"', 'format = "xml"', 20, r"\[\[silver\]\] clicks, format#: Invalid enum"),
        ('format = "csv"', "", 17, r"\[\[silver\]\] clicks, format is missing#"),
        (
            'format = "csv"',
            'formt = "csv"',
            20,
            r"\[\[silver\]\] clicks, formt#: unknown key.*format",
        ),
        (
            "quarantine_limit = 3",
            "quarantine_limit = -1",
            22,
            r"\[\[silver\]\] clicks, quarantine_limit# = -1: give a count",
        ),
        (
            'page = "string"',
            'page = "text"',
            25,
            r"\[\[silver\]\] clicks, columns, page#: type 'text'",
        ),
        ('page = "string"', "page = 5", 25, r"\[\[silver\]\] clicks, columns, page#: Expected"),
        ("trim = true }", "trimm = true }", 26, r"clicks, columns, n, trimm#: unknown key .*trim"),
        (
            'format = "csv"',
            'format = "csv"\ntable = "lake/silver_orders"',
            21,
            r"clicks, table#: its folder .* and that of \[\[silver\]\] orders, table",
        ),
        (
            'format = "csv"',
            'format = "csv"\navro_schema = "x"',
            21,
            r"\[\[silver\]\] clicks, avro_schema# is for the format avro",
        ),
    ],
)
def test_a_mistake_is_named_with_its_table_key_and_line(
    old: str, new: str, line: int, said: str
) -> None:
    head, found, tail = SHOP.rpartition(old)
    assert found
    with pytest.raises(OptionError, match=said.replace("#", rf" \(line {line}\)")) as raised:
        read(head + new + tail)
    assert str(raised.value).count("(line ") == 1


def test_a_step_names_no_table_where_there_is_one_without_a_name() -> None:
    text = SHOP[: SHOP.index('[[silver]]\nname = "clicks"')] + SHOP[SHOP.index("[[gold]]") :]
    text = text.replace('name = "orders"\ntopics = ["orders", "returns"]\n', "")
    with pytest.raises(OptionError, match=r"sales, silver \(line .* the only one has no name"):
        read(text.replace("[[silver]]", "[silver]"))


def test_a_state_step_reads_its_own_table() -> None:
    step = """
[[state]]
name = "latest"
silver = "clicks"
key = ["page"]
"""
    orders, clicks = read(SHOP + step).parts
    assert [[one.name for one in part.state] for part in (orders, clicks)] == [[], ["latest"]]
    assert orders.every_state == clicks.state
    assert orders.tables[-1] == ("state latest", "/srv/lake/state/latest")
    with pytest.raises(OptionError, match=r"\[\[state\]\] latest, silver \(line 44\) = 'no'"):
        read(SHOP + step.replace('"clicks"', '"no"'))
    with pytest.raises(OptionError, match=r"\[\[state\]\] latest \(line 42\): several silver"):
        read(SHOP + step.replace('silver = "clicks"', ""))


def test_a_task_has_the_plan_of_its_topic() -> None:
    orders, clicks = read(SHOP).parts
    plans = [
        (one.own_topics, SilverPlan(one.silver, one.quarantine, one.parse).to_json())
        for one in (orders, clicks)
    ]
    found = SilverPlans.from_json(SilverPlans(plans).to_json())
    assert [
        plan and plan.silver for plan in map(found.of, ("orders", "clicks", "returns", "else"))
    ] == [orders.silver, clicks.silver, orders.silver, None]
    whole = SilverPlans.from_json(json.dumps([[None, plans[0][1]]])).of("else")
    assert whole is not None
    assert replace(whole, parse=orders.parse) == SilverPlan.from_json(plans[0][1])
