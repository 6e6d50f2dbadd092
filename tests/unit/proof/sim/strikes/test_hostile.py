"""Batches that lie in a simulation: refused before the append, and seen by the last look if not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.hosts.replica.record_check import check_records
from strandline_broker.storage.log.config import LogConfig
from strandline_proof.sim.kinds.clients import LIES
from strandline_proof.sim.oracles.replica.audit import audit
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.strikes.hostile import hostile_batch
from strandline_proto.batch import build_batch, check_batch, read_header
from strandline_proto.errors import InvalidRecord, InvalidTimestamp
from support.storage import Store

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_is_sound_but_for_its_records(lie: str) -> None:
    batch = hostile_batch(lie, NOW_MS)
    header = check_batch(batch)
    kind = InvalidTimestamp if lie in ("largest", "future") else InvalidRecord
    with pytest.raises(kind):
        check_records("t-0", batch, header, LogConfig(), NOW_MS)


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie != "future"])
def test_the_last_look_sees_one_that_was_appended(tmp_path: Path, lie: str) -> None:
    store = Store(tmp_path / "data")
    sound = build_batch([(None, b"v")] * 3, timestamp_ms=NOW_MS)
    store.log.append_as_leader(sound, read_header(sound), leader_epoch=0)
    partition: Any = SimpleNamespace(log=store.log, high_watermark=3)
    assert [base for base, _ in audit(partition, "here", 0)] == [0]
    batch = hostile_batch(lie, NOW_MS)
    store.log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    partition.high_watermark = store.log.log_end_offset
    with pytest.raises(Violation, match="I-98"):
        audit(partition, "here", 0)
