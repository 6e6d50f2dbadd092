"""Numbers that are none, for every option that wants a number."""

import pytest

from strandline_cli.main import run


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["health", "--timeout", "nan", "--broker", "127.0.0.1:1"], "--timeout"),
        (["topic", "list", "--timeout", "NaN", "--bootstrap", "127.0.0.1:1"], "--timeout"),
        (["chaos", "mutants", "--seconds", "nan"], "--seconds"),
    ],
)
def test_nan_is_no_number(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"error: {option} nan is no number: give one\n"
