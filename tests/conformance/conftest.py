"""Every test of this folder has the marker `conformance` and skips without its target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.harness.targets import asked_target, running_target, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.harness.targets import Target

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Three brokers for the whole session."""
    if (why := why_not()) is not None:
        pytest.skip(why)
    with running_target(tmp_path_factory.mktemp(asked_target()) / "cluster") as running:
        yield running
