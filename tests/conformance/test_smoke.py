"""The smoke test: six clients run one script while a leader and two coordinators are killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.harness.clients import smoke_clients
from conformance.harness.results import Outcome, Result, keep
from conformance.harness.script import STEPS, play

if TYPE_CHECKING:
    from conformance.harness.targets import Target

CLIENTS = [client.name for client in smoke_clients()]


@pytest.fixture(scope="module")
def results(target: Target) -> dict[str, dict[str, Result]]:
    played = play(smoke_clients(), target)
    keep("smoke", played)
    return played


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_completes_step(
    results: dict[str, dict[str, Result]], client: str, step: str
) -> None:
    result = results[client][step]
    assert result.outcome is not Outcome.FAILED, result.detail
