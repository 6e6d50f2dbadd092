"""Names of Java classes are looked up in the JVM once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ASKS = "r\n"
"""How py4j's command begins that asks for a name."""


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


@pytest.fixture
def sent(jvm: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    commands: list[str] = []
    client = jvm._gateway_client
    send = client.send_command

    def note(command: str, *arguments: Any, **options: Any) -> Any:
        commands.append(command)
        return send(command, *arguments, **options)

    monkeypatch.setattr(client, "send_command", note)
    return commands


def test_packages_classes_and_methods_are_asked_for_once(jvm: Any, sent: list[str]) -> None:
    assert [jvm.java.time.temporal.ChronoField.valueOf("YEAR").name() for _ in range(3)] == [
        "YEAR"
    ] * 3
    asked = [command for command in sent if command.startswith(ASKS)]
    assert asked, "the names were asked for before this test"
    assert len(asked) == len(set(asked))


def test_a_whole_name_is_asked_for_once(jvm: Any, sent: list[str]) -> None:
    for _ in range(3):
        getattr(jvm, "java.time.temporal.IsoFields")
    assert len(sent) == 1


def test_a_class_that_is_not_there_is_asked_for_again(jvm: Any, sent: list[str]) -> None:
    for _ in range(2):
        assert type(jvm.java.time.NoSuchClass).__name__ == "_Package"
    assert sum("NoSuchClass" in command for command in sent) == 2


def test_a_static_field_is_read_at_each_use(jvm: Any, sent: list[str]) -> None:
    assert [jvm.java.time.Year.MAX_VALUE for _ in range(2)] == [999_999_999] * 2
    assert sum("MAX_VALUE" in command for command in sent) == 2
