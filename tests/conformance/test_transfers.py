"""Transfers between accounts with three clients at once, while brokers are killed (I-154)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.harness import transfers
from conformance.harness.targets import asked_target
from support.command import strandline

if TYPE_CHECKING:
    from pathlib import Path

RUN_S = 400.0


def test_transfers_of_three_clients_are_whole(tmp_path: Path) -> None:
    if asked_target() != "strandline":
        pytest.skip("the run kills brokers of Strandline")
    ended = strandline(
        *("chaos", "transfers", "--minutes", "0.5", "--format", "json", *transfers.options()),
        environ={"TMPDIR": str(tmp_path)},
        deadline_s=RUN_S,
    )
    verdict = ended.json
    assert verdict["verdict"] == "sound", ended
    assert verdict["readers"] == 4
