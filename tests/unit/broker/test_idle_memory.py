"""Modules that a server loads only when it needs them, as each costs idle memory."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(module: str) -> set[str]:
    """Names of all modules after an import of this one alone."""
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["kafka", "strandline_broker.kafka.connection"])
def test_a_kafka_listener_loads_what_serves_a_connection_with_the_first_one(name: str) -> None:
    assert name not in loaded("strandline_broker.kafka.listener")


def test_a_controller_loads_no_commands_of_groups() -> None:
    modules = loaded("strandline_broker.controller_app")
    assert "strandline_broker.core.groups.commands" not in modules
