"""pipeline.toml: what it says, and that each mistake is named with its key, value and remedy."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from strandline_spark.errors import OptionError
from strandline_spark.examples import NAMES, text_of
from strandline_spark.parsing.protobuf.descriptors import descriptor_text
from strandline_spark.pipeline.config import (
    limit_of,
    load_pipeline,
    parse_pipeline,
)
from strandline_spark.pipeline.durations import duration_us
from strandline_spark.pipeline.keys import (
    BronzeKeys,
    GoldKeys,
    PipelineKeys,
    SilverKeys,
    StateKeys,
)
from strandline_spark.pipeline.lines import Lines
from strandline_spark.pipeline.lines import Path as KeyPath
from strandline_spark.pipeline.steps import StateStep
from strandline_spark.silver.range_output import SilverPlan
from support.descriptors import descriptor_set

if TYPE_CHECKING:
    from strandline_spark.pipeline.config import Pipeline

WHOLE = """
[pipeline]
name = "clicks"
topics = ["a", "b"]
directory = "lake"

[silver]
format = "json"
event_time = "at"
on_new_field = "add"
quarantine_limit = "2.5%"

[silver.columns]
user = "string"
at = { type = "timestamp", format = "%Y-%m-%d %H:%M:%S" }
price = "decimal(10,2)"

[[gold]]
name = "per_minute"
window = "1 minute"
watermark = "30 seconds"
sql = \"\"\"
SELECT window_start, window_end, count(*) AS n
FROM silver GROUP BY ALL
\"\"\"

[[gold]]
name = "sessions"
session = "30 minutes"
session_key = ["user"]
watermark = "0 seconds"
sql = "SELECT window_start, window_end, user FROM silver GROUP BY ALL"

[[state]]
name = "users"

[[state]]
name = "prices"
key = ["user", "topic"]
order = ["at", "price"]
delete_when = "price = 0"
"""


def read(text: str, path: str = "/srv/pipeline.toml") -> Pipeline:
    return parse_pipeline(text, path)


def test_a_whole_file_is_read_with_its_folders_beside_it() -> None:
    found = read(WHOLE)
    assert (found.name, found.topics, found.start) == ("clicks", ("a", "b"), "table")
    assert found.bronze == "/srv/lake/bronze"
    assert found.silver == "/srv/lake/silver"
    assert found.quarantine == "/srv/lake/quarantine"
    assert found.checkpoint == "/srv/lake/_checkpoint"
    assert list(found.parse.columns) == ["user", "at", "price"]
    assert found.parse.columns["price"].name == "decimal(10,2)"
    assert found.parse.columns["at"].format == "%Y-%m-%d %H:%M:%S"
    assert found.adds_columns
    assert found.limit.is_passed(26, 1000)
    assert not found.limit.is_passed(25, 1000)
    first, second = found.gold
    assert (first.window, first.slide, first.watermark) == (60_000_000, None, 30_000_000)
    assert first.table == "/srv/lake/gold/per_minute"
    assert (second.session, second.session_key) == (1_800_000_000, ("user",))
    plain, given = found.state
    assert plain == StateStep("users", "/srv/lake/state/users", ("key",), (), None)
    assert (given.key, given.order) == (("user", "topic"), ("at", "price"))
    assert given.delete_when == "price = 0"
    assert found.tables[-1] == ("state prices", "/srv/lake/state/prices")


def test_a_statements_line_is_that_of_its_first_word() -> None:
    found = read(WHOLE)
    lines = WHOLE.splitlines()
    assert [lines[step.line - 1].split()[0] for step in found.gold] == ["SELECT", "sql"]


def test_what_a_file_does_not_say_has_a_default() -> None:
    start, end = WHOLE.index("on_new_field"), WHOLE.index("[silver.columns]")
    found = read(WHOLE[:start] + WHOLE[end:])
    assert not found.adds_columns
    assert not found.limit.is_passed(1000, 1000)
    assert not found.record_losses
    assert found.max_offsets_per_trigger is None


@pytest.mark.parametrize("name", NAMES)
def test_the_pipelines_that_ship_are_sound(name: str) -> None:
    assert read(text_of(name)).name == name


def test_the_docs_have_a_sound_file_with_every_key_and_no_other() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guide" / "spark" / "pipelines.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    found = read(text)
    assert (found.name, len(found.gold), len(found.state)) == ("shop", 2, 1)
    named = set(re.findall(r"^#? ?(\w+) = ", text, re.MULTILINE)) - set(found.parse.columns)
    sections = (PipelineKeys, BronzeKeys, SilverKeys, GoldKeys, StateKeys)
    known = {one.name for kind in sections for one in msgspec.structs.fields(kind)}
    of_the_store = {"aws_region"}  # [storage] has the names of delta-rs' options
    assert named == (known - {"columns"}) | of_the_store


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("[pipeline]", "extra = 1\n[pipeline]", 2, r"extra#: unknown key.*there are pipeline"),
        ("[silver]", "[slver]", 7, r"\[slver\]#: unknown key \(did you mean silver"),
        ('directory = "lake"', 'direktory = "lake"', 5, r"direktory#: unknown key .*directory"),
        ('name = "clicks"', "", 2, r"\[pipeline\] name is missing#"),
        ('name = "clicks"', "name = 5", 3, r"\[pipeline\] name#: Expected `str`, got `int`"),
        ('name = "clicks"', 'name = "a b"', 3, r"\[pipeline\] name# = 'a b'.*letters"),
        ('topics = ["a", "b"]', "topics = []", 4, r"\[pipeline\] topics# = \[\].*one or more"),
        ('topics = ["a", "b"]', 'topics = ["a", "a"]', 4, "topics#.*each once"),
        ('directory = "lake"', 'directory = "gs://lake"', 5, "directory#.*folders of this machine"),
        ('format = "json"', 'format = "xml"', 8, r"\[silver\] format#.*Invalid enum value 'xml'"),
        ('event_time = "at"', 'event_time = "when"', 9, r"event_time# = 'when' is no column"),
        ('event_time = "at"', 'event_time = "user"', 9, "event_time#"),
        (
            'event_time = "at"',
            'event_time = "at"\nmax_ahead = "soon"',
            10,
            "max_ahead# = 'soon': give .* as '5 minutes', or 'unlimited'",
        ),
        (
            'format = "json"',
            'format = "json"\npattern = "x"',
            9,
            "pattern# is for the format regex",
        ),
        ('format = "json"', 'format = "regex"', 8, "format#.*needs the key pattern"),
        ('quarantine_limit = "2.5%"', 'quarantine_limit = "few"', 11, "quarantine_limit# = 'few'"),
        ('quarantine_limit = "2.5%"', "quarantine_limit = -1", 11, "quarantine_limit# = -1"),
        ('user = "string"', 'user = "text"', 14, r"\[silver.columns\] user#: .*text"),
        ('user = "string"', "user = 5", 14, r"\[silver.columns\] user#: .*`int`: give a type"),
        ('user = "string"', "user = { typ = 5 }", 14, r"columns\] user, typ#: .*mean type"),
        ('user = "string"', "user = { type = 5 }", 14, r"columns\] user, type#: Expected `str`"),
        ('user = "string"', 'offset = "int"', 14, r"\[silver.columns\] offset#: .*already"),
        ('user = "string"', 'AT = "int"', 15, r"\[silver.columns\] at#: .*already"),
        ('user = "string"', '"a b" = "int"', 14, "'a b'#.*letters, digits and _"),
        ('watermark = "30 seconds"', "", 18, r"\[\[gold\]\] per_minute, watermark is missing#"),
        ('watermark = "30 seconds"', 'watermark = "soon"', 21, "watermark# = 'soon'.*5 minutes"),
        ('watermark = "0 seconds"', 'watermark = "soon"', 31, "sessions, watermark# = 'soon'"),
        ('window = "1 minute"', 'windo = "1 minute"', 20, "per_minute, windo#: .*mean window"),
        ('window = "1 minute"', "", 18, r"\[\[gold\]\] per_minute#: give either window"),
        ('window = "1 minute"', 'window = "1 minute"\nsession = "1 hour"', 18, "either window"),
        ('window = "1 minute"', 'window = "1 minute"\nslide = "2 minutes"', 21, "slide#.*between"),
        (
            'window = "1 minute"',
            'window = "12 days"\nslide = "1 second"',
            21,
            "slide# = '1 second': each row would be in 1,036,800 windows of '12 days'",
        ),
        (
            'window = "1 minute"',
            'window = "1 day"\nzone = "Europe/Bonn"',
            21,
            "per_minute, zone# 'Europe/Bonn' is not in the time zone database",
        ),
        (
            'window = "1 minute"',
            'window = "1 hour"\nzone = "Europe/Berlin"',
            20,
            "per_minute, window# = '1 hour': with a zone it has to be whole days or weeks",
        ),
        (
            'window = "1 minute"',
            'window = "1 day"\noffset = "1 day"',
            21,
            "per_minute, offset# = '1 day': a window begins every '1 day'; give less",
        ),
        (
            'session_key = ["user"]',
            'session_key = ["user"]\nzone = "Europe/Berlin"',
            31,
            "sessions, zone# = 'Europe/Berlin': it places windows, and a session has none",
        ),
        ('session_key = ["user"]', "", 27, "sessions#: session and session_key belong together"),
        (
            'key = ["user", "topic"]',
            "key = []",
            39,
            r"\[\[state\]\] prices, key# = \[\]: name one or",
        ),
        ('key = ["user", "topic"]', 'key = ["a", "a"]', 39, "key# .*each once"),
        ('key = ["user", "topic"]', 'kee = ["user"]', 39, r"prices, kee#: unknown key .*mean key"),
        ('key = ["user", "topic"]', "key = 5", 39, r"\[\[state\]\] prices, key#: Expected `array`"),
        ('order = ["at", "price"]', "order = []", 40, r"prices, order# = \[\]: name one or more"),
        ('delete_when = "price = 0"', 'delete_when = " "', 41, "prices, delete_when#: it is empty"),
        ('name = "prices"', 'name = "users"', 38, r"users, name#: two steps have this name"),
        ('name = "prices"', "", 37, r"\[\[state\]\] 2, name is missing#"),
        ('name = "prices"', 'name = "p"\ntable = "lake/silver/x"', 39, "p, table#.*a folder of"),
        ('name = "sessions"', 'name = "a b"', 28, r"\[\[gold\]\] 2, name# = 'a b'"),
        ('name = "sessions"', 'name = "per_minute"', 28, "name#: two steps have this name"),
        ('name = "sessions"', 'name = "s"\ntable = "lake/gold/per_minute"', 29, "a folder of its"),
        ('name = "sessions"', 'name = "s"\ntable = "lake/silver/x"', 29, "s, table#.*a folder of"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_line(old: str, new: str, line: int, said: str) -> None:
    text = WHOLE.replace(old, new, 1)
    assert text != WHOLE
    with pytest.raises(OptionError, match=said.replace("#", rf" \(line {line}\)")) as raised:
        read(text)
    assert str(raised.value).startswith("/srv/pipeline.toml: ")
    assert str(raised.value).count("(line ") == 1


def test_a_text_that_is_no_toml_is_named_with_its_line() -> None:
    with pytest.raises(OptionError, match=r"/srv/pipeline.toml is no TOML: .*line 2"):
        read(WHOLE.replace("[pipeline]", "[pipeline"))


ODDLY_SPELT = """\
silver.format = 1 # [silver]\r
[ pipeline ]
name = \"""
[silver]
fake = 1
\"""
topics = [
 'format = 2',
]
[[ gold ]]
"s q" . 'l' = '''
SELECT \u2028 1'''
[[gold]]

'sql' = "x = '''"
[silver.columns] # sql = 1
a = { type = 'int' }
"""


def test_a_key_is_found_however_toml_spells_it() -> None:
    lines = Lines(ODDLY_SPELT)
    wanted: dict[KeyPath, int] = {
        ("silver", "format"): 1,
        ("pipeline", "name"): 3,
        ("pipeline", "topics"): 7,
        ("gold", 0): 10,
        ("gold", 0, "s q", "l"): 11,
        ("gold", 0, "absent"): 10,
        ("gold", 1, "sql"): 15,
        ("silver", "columns", "a", "type"): 17,
        ("silver", "fake"): 1,
        ("nothing", "here"): 1,
    }
    assert {path: lines.of(path) for path in wanted} == wanted
    assert lines.of_text(("gold", 0, "s q", "l")) == 12
    assert lines.of_text(("gold", 1, "sql")) == 15


def test_lines_of_many_blanks_are_read_at_once() -> None:
    blanks = " " * 20_000
    assert Lines(f"a = 1\n{blanks}\n{blanks}# no key\n{blanks}b{blanks}= 2\n").of(("b",)) == 4


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=re.escape(str(tmp_path / "no.toml"))):
        load_pipeline(str(tmp_path / "no.toml"))


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(WHOLE)
    before = os.getcwd()
    assert load_pipeline(str(tmp_path / "p.toml")).silver == str(tmp_path / "lake" / "silver")
    assert os.getcwd() == before


def with_format(*lines: str) -> str:
    """WHOLE with these lines in place of the format."""
    text = WHOLE.replace('on_new_field = "add"\n', "")
    return text.replace('format = "json"', "\n".join(lines), 1)


AVRO = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [
            {"name": "user", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            },
        ],
    }
)


def test_files_of_schemas_are_beside_the_file_and_their_contents_go_to_the_tasks(
    tmp_path: Path,
) -> None:
    (tmp_path / "p.toml").write_text(
        with_format(
            'format = "avro"', 'registry = "header"', 'schemas = { 7 = "a/7.avsc" }'
        ).replace(', format = "%Y-%m-%d %H:%M:%S"', "")
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "7.avsc").write_text(AVRO)
    parse = load_pipeline(str(tmp_path / "p.toml")).parse
    assert (parse.registry, parse.schemas, parse.avro_schema) == ("header", {"7": AVRO}, None)
    assert SilverPlan.from_json(SilverPlan("", "", parse).to_json()).parse == parse


def test_a_descriptor_is_part_of_the_settings(tmp_path: Path) -> None:
    fields = "string user = 1; int64 at = 2; int64 price = 3;"
    made = descriptor_set(m=f'syntax = "proto3"; package p; message M {{ {fields} }}')
    (tmp_path / "m.desc").write_bytes(made)
    (tmp_path / "p.toml").write_text(
        with_format('format = "protobuf"', 'descriptor = "m.desc"', 'message = "p.M"').replace(
            "%Y-%m-%d %H:%M:%S", "epoch_s"
        )
    )
    parse = load_pipeline(str(tmp_path / "p.toml")).parse
    assert parse.descriptor == descriptor_text(made, "p.M")
    assert SilverPlan.from_json(SilverPlan("", "", parse).to_json()).parse == parse


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (['format = "avro"'], 8, r"\[silver\] format# = 'avro' needs the key avro_schema"),
        (['format = "json"', 'registry = "header"'], 9, "registry# is for .* avro and protobuf"),
        (['format = "avro"', 'registry = "id"'], 9, "registry#: Invalid enum value 'id'"),
        (['format = "json"', 'schemas = { 7 = "x" }'], 9, "schemas# is for the format avro"),
        (['format = "json"', 'message = "M"'], 9, "message# is for the format protobuf"),
        (
            ['format = "avro"', 'schemas = { 7 = "no.avsc" }'],
            9,
            r"schemas#, 7 = 'no.avsc' does not read .*: name the file of the schema of this id",
        ),
        (['format = "avro"', "schemas = { 7 = 8 }"], 9, "schemas#.*Expected `str`, got `int`"),
        (
            ['format = "avro"', 'avro_schema = "no.avsc"'],
            9,
            r"avro_schema# = 'no.avsc' does not read .*: name the file of the writer's schema",
        ),
        (['format = "protobuf"', 'message = "M"'], None, "'protobuf' needs the key descriptor"),
        (
            ['format = "protobuf"', 'descriptor = "x"', 'message = "M"'],
            9,
            r"descriptor# = 'x' does not read",
        ),
        (
            ['format = "protobuf"', 'descriptor = "/dev/null"', 'message = "M"'],
            9,
            r"descriptor# = '/dev/null' is no FileDescriptorSet: write it with protoc",
        ),
    ],
)
def test_a_mistake_of_schemas_is_named(lines: list[str], line: int | None, said: str) -> None:
    at = "" if line is None else rf" \(line {line}\)"
    with pytest.raises(OptionError, match=said.replace("#", at)):
        read(with_format(*lines))


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1 second", 10**6),
        ("2 minutes", 120 * 10**6),
        ("1 day", 86_400 * 10**6),
        ("36500 days", 36_500 * 86_400 * 10**6),
    ],
)
def test_durations(text: str, us: int) -> None:
    assert duration_us("k", text) == us


def test_a_column_may_be_a_part_of_the_value_of_the_key_or_of_a_header() -> None:
    more = """
url = { type = "string", field = "$.page['url']" }
items = "array<struct<sku:string,n:int>>"
raw = { type = "json", field = "$", from = "value" }
id = { type = "bigint", from = "key", field = "payload.id" }
trace = { type = "string", from = "header:trace-id" }
"""
    found = read(WHOLE.replace('user = "string"', more)).parse.columns
    assert found["items"].name == "array<struct<sku:string,n:int>>"
    assert [(one.field, one.source) for one in found.values()][:5] == [
        ("$.page['url']", None),
        (None, None),
        ("$", None),
        ("payload.id", "key"),
        (None, "header:trace-id"),
    ]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('explode = "items[*]"', "field 'items[*]' names many places"),
        ('explode = "$"', "is the whole value, and that is an object: name an array in it"),
        (
            'explode = "items"\nformat = "csv"',
            "is for the format json and avro and protobuf, and format",
        ),
        ("explode = 5", "Expected `str | null`, got `int`"),
    ],
)
def test_an_array_that_there_is_not_is_named_with_its_line(key: str, said: str) -> None:
    text = WHOLE.replace('format = "json"', key if "format" in key else f'format = "json"\n{key}')
    with pytest.raises(OptionError, match=rf"\[silver\] explode.*{re.escape(said)}") as raised:
        read(text)
    line = 8 if "format" in key else 9
    assert f"(line {line})" in str(raised.value)


def test_explode_adds_the_column_of_the_place_first() -> None:
    found = read(WHOLE.replace('format = "json"', 'format = "json"\nexplode = "items"')).parse
    assert found.explode == "items"
    assert list(found.columns)[:2] == ["position", "user"]
    assert (found.columns["position"].name, found.columns["position"].source) == ("int", "position")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ('{ type = "string", field = "page..url" }', "field 'page..url' is no path from"),
        ('{ type = "string", field = "items[*].sku" }', "field .* names many places"),
        ('{ type = "string", from = "headers" }', "from = 'headers' is no part of a record"),
        ('{ type = "int", from = "position" }', "from = .position. is the place of an exploded"),
        (
            '{ type = "string", frm = "key" }',
            r"unknown key \(did you mean from\?\); there are type",
        ),
        ('"array<float>"', "type 'array<float>' is none of string"),
        (
            '{ type = "map<string,int>", default = 5 }',
            "default = 5: a number is no map<string,int>",
        ),
    ],
)
def test_a_part_that_there_is_not_is_named_with_its_line(column: str, said: str) -> None:
    with pytest.raises(OptionError, match=rf"\[silver.columns\] user.* \(line 14\): {said}"):
        read(WHOLE.replace('user = "string"', f"user = {column}"))


@pytest.mark.parametrize(
    ("key", "micros"),
    [
        ("", 3600 * 10**6),
        ('max_ahead = "0 seconds"', 0),
        ('max_ahead = "2 days"', 2 * 86_400 * 10**6),
        ('max_ahead = "unlimited"', None),
    ],
)
def test_event_times_are_bounded_by_an_hour_unless_the_file_says_otherwise(
    key: str, micros: int | None
) -> None:
    found = read(WHOLE.replace('event_time = "at"', f'event_time = "at"\n{key}'))
    assert found.parse.max_ahead == micros


@pytest.mark.parametrize("text", ["0 seconds", "1.5 hours", "month", "-1 day", "", "5300 weeks"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(OptionError, match="k = "):
        duration_us("k", text)


def test_a_limit_is_a_count_or_a_share() -> None:
    assert limit_of(0).is_passed(1, 10)
    assert not limit_of(0).is_passed(0, 10)
    assert limit_of("0%").is_passed(1, 10)
    assert not limit_of("100%").is_passed(1_000, 1_000)
    assert not limit_of("1%").is_passed(999, 999)
    assert not limit_of("1%").is_passed(10, 1_000)
    assert limit_of("1%").is_passed(11, 1_000)
    assert str(limit_of("1%")) == "1%"
    assert str(limit_of(7)) == "7"
