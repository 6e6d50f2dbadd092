"""The code of shards: a load has it imported beside the event loop."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.coordination.shard_code import ShardCode
from strandline_proto.errors import CoordinatorLoadInProgress, NotCoordinator
from support.group_broker import answered, group_broker
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker

IMPORTED = """
import sys
from strandline_broker.hosts.{0}.coordinator import CODE

own = ("strandline_broker.hosts.{0}.{1}_shard", "strandline_broker.hosts.{0}.{1}_context")
runtime = "strandline_broker.hosts.coordination"
all_of_it = {{*own, runtime + ".shard_host", runtime + ".shard_context", runtime + ".loader"}}
all_of_it.add("aiokafka.record._crecords")
assert not all_of_it & sys.modules.keys(), "before it is needed"
assert not CODE.is_loaded
CODE.load()
assert all_of_it <= sys.modules.keys(), all_of_it - sys.modules.keys()
assert CODE.is_loaded
"""


@pytest.mark.parametrize(("room", "noun"), [("groups", "group"), ("transactions", "transaction")])
def test_the_code_of_shards_is_all_that_a_load_needs(room: str, noun: str) -> None:
    code = IMPORTED.format(room, noun)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class _Imports:
    """The threads on which the code of shards was imported."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def __call__(self) -> None:
        self.threads.append(threading.current_thread())


async def _stored(b: GroupBroker) -> None:
    """The log of a broker that has a shard no more."""
    await b.lead(1, isr=(1,))
    await answered(b.commit(5))
    b.shards.resigned(b.partition)
    b.shards.deleted(b.partition)


def _without_code(b: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> _Imports:
    imports = _Imports()
    monkeypatch.setattr(type(b.shards._coordinator), "code", ShardCode(imports))
    return imports


async def test_the_first_load_imports_the_code_on_the_disks_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_broker(tmp_path) as b:
        await _stored(b)
        imports = _without_code(b, monkeypatch)
        with b.disk_stands_still():
            b.shards.elected(b.partition, 1, b.partition.log.log_end_offset)
            await b.turns()
            assert b.shards.hosts() == []
            with pytest.raises(CoordinatorLoadInProgress):
                b.shards.of("g")
        await eventually(lambda: b.shards.hosts() != [], "a shard")
        await b.serves()
        assert await b.fetch() == 5
        assert [thread is threading.main_thread() for thread in imports.threads] == [False]
        b.shards.resigned(b.partition)
        b.shards.deleted(b.partition)
        b.shards.elected(b.partition, 1, b.partition.log.log_end_offset)
        assert b.shards.hosts() != [], "the code is there"
        assert len(imports.threads) == 1


async def test_a_leadership_that_ends_while_the_code_is_imported_gets_no_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-105."""
    async with group_broker(tmp_path) as b:
        await _stored(b)
        imports = _without_code(b, monkeypatch)
        end = b.partition.log.log_end_offset
        with b.disk_stands_still():
            b.shards.elected(b.partition, 1, end)
            b.shards.resigned(b.partition)
        await eventually(lambda: len(imports.threads) == 1, "the import")
        await b.turns()
        assert b.shards.hosts() == []
        with pytest.raises(NotCoordinator):
            b.shards.of("g")
        b.shards.elected(b.partition, 1, end)
        await b.serves()
        assert await b.fetch() == 5, "the registry goes on"


async def test_the_leadership_after_it_gets_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_broker(tmp_path) as b:
        await _stored(b)
        imports = _without_code(b, monkeypatch)
        end = b.partition.log.log_end_offset
        with b.disk_stands_still():
            b.shards.elected(b.partition, 0, end)
            b.shards.resigned(b.partition)
            b.shards.elected(b.partition, 1, end)
        await eventually(lambda: b.shards.hosts() != [], "a shard")
        await b.turns()
        (host,) = b.shards.hosts()
        assert host.machine.epoch == 1
        await b.serves()
        assert await b.fetch() == 5
        assert len(imports.threads) == 2
