"""`strandline chaos transfers` in its short form: brokers are killed among transactions (I-154)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from conformance.harness import installed, transfers
from support.command import strandline

if TYPE_CHECKING:
    from pathlib import Path

RUN_S = 400.0


def foreign() -> list[str]:
    """A mover and a reader with confluent-kafka, where it is installed already."""
    if not installed.has_python():
        return []
    command = shlex.join(transfers.confluent())
    return ["--mover", command, "--reader", command]


@pytest.mark.proof
def test_transfers_are_whole_while_brokers_are_killed(tmp_path: Path) -> None:
    ended = strandline(
        *("chaos", "transfers", "--minutes", "0.42", "--kill-every", "10", "--seed", "7"),
        *("--format", "json", *foreign()),
        environ={"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        deadline_s=RUN_S,
    )
    verdict = ended.json
    assert verdict["verdict"] == "sound", ended
    assert verdict["kills"] == 2
    assert verdict["committed"] > 100
    assert verdict["quiet_cuts"] >= 2
    assert list(tmp_path.iterdir()) == []
