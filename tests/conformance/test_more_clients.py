"""Three more clients run the script of the smoke test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.harness import transactions
from conformance.harness.clients import more_clients
from conformance.harness.results import Outcome, Result, keep
from conformance.harness.script import STEPS, play

if TYPE_CHECKING:
    from conformance.harness.targets import Target

CLIENTS = [client.name for client in more_clients()]

EXPLAINED = {
    ("platformatic", step): "the client may ask a dead coordinator until it is back"
    for step in ("coordinator killed", "restart after the kill")
}
"""The steps that may fail, each with its reason."""


@pytest.fixture(scope="module")
def results(target: Target) -> dict[str, dict[str, Result]]:
    played = play(more_clients(), target)
    for (client, step), reason in EXPLAINED.items():
        if played[client][step].outcome is Outcome.FAILED:
            played[client][step] = Result(Outcome.FAILED, reason)
    keep("smoke", played)
    return played


@pytest.mark.parametrize("step", [each for each in STEPS if each not in transactions.STEPS])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_completes_step(
    results: dict[str, dict[str, Result]], client: str, step: str
) -> None:
    result = results[client][step]
    if (client, step) not in EXPLAINED:
        assert result.outcome is not Outcome.FAILED, result.detail
