"""What a controller says of a store that it must not go on from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from strandline_broker.config.loading import load_controller_config
from strandline_broker.controller_app import ControllerProcess
from strandline_broker.core.compatibility import OURS, Levels
from strandline_broker.core.controller.log.records import LOG_LEVEL, encode, epoch_record
from strandline_broker.hosts.member.lifecycle import CannotStart
from strandline_broker.storage.controller.metadata_log import DIRECTORY
from strandline_proto.ids import ControllerEpoch
from strandline_runtime.real import RealFileSystem, real_runtime
from support.controller_store import StoreRun, some_decisions

if TYPE_CHECKING:
    from pathlib import Path

BATCHES: Final = some_decisions()
BUILD: Final = "0.1.0+aaa"


def store(path: Path, *batches: list[bytes]) -> Path:
    written = StoreRun(RealFileSystem(), str(path))
    for values in batches:
        written.append(values)
    written.close()
    return path


def refusal(path: Path, levels: Levels = OURS) -> str:
    runtime = real_runtime("controller-100")
    config = load_controller_config(
        None,
        {"node.id": "100", "log.dirs": str(path), "listeners": "CONTROLLER://127.0.0.1:0"},
        {},
    )
    with pytest.raises(CannotStart) as refused:
        ControllerProcess(runtime, config, BUILD, levels=levels)
    return str(refused.value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"type":"OfTomorrow","what":1}', "Invalid value 'OfTomorrow'"),
        (b'{"type":"ProducerIds","of_tomorrow":1}', "unknown field `of_tomorrow`"),
        (
            encode(epoch_record(ControllerEpoch(9), build="0.9.0+zzz", level=LOG_LEVEL + 1)),
            f"build 0.9.0+zzz begins epoch 9 of the log at level {LOG_LEVEL + 1}",
        ),
    ],
)
def test_a_log_that_a_later_build_wrote_is_refused_and_left_as_it_is(
    value: bytes, why: str, tmp_path: Path
) -> None:
    path = store(tmp_path, *BATCHES)
    run = StoreRun(RealFileSystem(), str(path))
    offset = run.log.end_offset
    run.log.append([value], controller_epoch=9, now_ms=1)
    run.close()
    before = {file: file.read_bytes() for file in (path / DIRECTORY).glob("*.log")}
    said = refusal(path)
    assert said.startswith(
        f"a later build than this one ({BUILD}) has written the log in {path}: the record at"
        f" offset {offset}: "
    )
    assert why in said
    assert said.endswith(
        "Start the controller with that build, or a later one; nothing was changed"
    )
    assert {file: file.read_bytes() for file in (path / DIRECTORY).glob("*.log")} == before


def test_a_controller_that_serving_brokers_cannot_follow_does_not_start(tmp_path: Path) -> None:
    said = refusal(store(tmp_path, *BATCHES), Levels(2, 3))
    assert "broker 1 runs build test and speaks protocol level 0; this controller runs" in said
    assert f"build {BUILD} and speaks protocol levels 2 to 3: they share no level" in said
    assert said.endswith("nothing was changed")
