"""Settings and addresses of an object store: what a pipeline's file may say, and what is shown."""

from __future__ import annotations

import os

import pytest

from strandline_spark.errors import OptionError, first_line
from strandline_spark.pipeline.config import load_pipeline, parse_pipeline
from strandline_spark.source.option_values import table_path
from strandline_spark.stores import options
from strandline_spark.stores.paths import absolute, is_remote, joined, overlap

FILE = """
[pipeline]
name = "p"
topics = ["t"]
directory = "s3://lake/of/p/"
checkpoint = "c"

[silver]
format = "json"
event_time = "timestamp"

[silver.columns]
n = "bigint"
"""


def test_a_file_places_its_tables_and_keeps_the_checkpoint_here() -> None:
    pipeline = parse_pipeline(FILE, "/f/pipeline.toml")
    assert dict(pipeline.tables) == {
        name: f"s3://lake/of/p/{name}" for name in ("bronze", "silver", "quarantine")
    }
    assert pipeline.checkpoint == "/f/c"
    of_bucket = parse_pipeline(FILE.replace("s3://lake/of/p/", "s3://lake"), "/f/pipeline.toml")
    assert of_bucket.bronze == "s3://lake/bronze"
    mixed = FILE + '\n[bronze]\ntable = "bronze"\n'
    assert parse_pipeline(mixed, "/f/pipeline.toml").bronze == "/f/bronze"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('checkpoint = "c"', "", "checkpoint.* is missing: Spark's checkpoint cannot be in an"),
        ('checkpoint = "c"', 'checkpoint = "s3://b/c"', "checkpoint.* cannot be in an object"),
        ("s3://lake/of/p/", "s3://lake/../p", r"has an empty step, or \. or \.\."),
        ("s3://lake/of/p/", "s3://L/p", "give s3://BUCKET/FOLDER"),
        ("s3://lake/of/p/", "az://lake/p", "tables lie in folders of this machine or at s3://"),
        ("[silver]", "[storage]\naws_regio = 'x'\n[silver]", "did you mean aws_region"),
        (
            "[silver]",
            "[storage]\naws_secret_access_key = 'x'\n[silver]",
            "no place for credentials; set the environment variable AWS_SECRET_ACCESS_KEY",
        ),
        (
            "[silver]",
            "[bronze]\ntable = 's3://lake/of/p/silver/x'\n[silver]",
            "are one, or one is in the other",
        ),
    ],
)
def test_a_mistake_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_pipeline(FILE.replace(old, new), "/f/pipeline.toml")


def test_settings_of_a_file_are_those_of_the_process(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in options.SHARED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    path = f"{tmp_path}/pipeline.toml"
    with open(path, "x", encoding="utf-8") as file:
        file.write(FILE + "[storage]\naws_region = 'eu'\nAWS_ALLOW_HTTP = true\n")
    load_pipeline(path)
    assert options.shared() == {"AWS_REGION": "eu", "AWS_ALLOW_HTTP": "true"}
    assert options.is_set("AWS_ALLOW_HTTP")
    assert not options.is_set("AWS_UNSIGNED_PAYLOAD")


def test_no_message_of_a_library_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    assert first_line(OSError("signed with hush by token\nmore")) == "signed with *** by ***"


def test_addresses_are_no_paths() -> None:
    assert table_path("TABLE", "s3://lake/a/") == "s3://lake/a"
    for wrong in ("s3://", "s3://lake", "s3://lake/a/../b", "s3://lake//a"):
        with pytest.raises(OptionError, match=r"^TABLE: "):
            table_path("TABLE", wrong)
    assert is_remote("s3://lake/a")
    assert not is_remote("/s3://lake/a")
    assert absolute("s3://lake/a/") == "s3://lake/a"
    assert joined("/x", "s3://lake/a") == "s3://lake/a"
    assert joined("s3://lake", "a") == "s3://lake/a"
    assert joined("/x/y", "../z") == "/x/z"
    assert overlap("s3://lake/a", "s3://lake/a/b")
    assert not overlap("s3://lake/a", "s3://lake/ab")
    assert not overlap("s3://lake/a", "/lake/a")
