"""The controller's state as records, and back."""

import msgspec
import pytest

from strandline_broker.core.controller.brokers.registration import StoreMismatch
from strandline_broker.core.controller.log.records import ControllerEpochRecord, LaterRecord
from strandline_broker.core.controller.log.snapshot import restore, take
from strandline_broker.core.controller.log.state import EPOCH_STARTS_MAX, ControllerState
from strandline_proto.ids import ControllerEpoch, MetadataOffset
from support.controller_cluster import B1, B2, STORE, Cluster, registration
from support.controller_store import fold, same, some_decisions


def restored(values: list[bytes]) -> ControllerState:
    state = ControllerState()
    restore(state, values)
    return state


def test_every_state_comes_back_as_it_was() -> None:
    batches = some_decisions()
    for count in range(1, len(batches) + 1):
        state = fold(batches[:count])
        taken = take(state)
        assert taken.end_offset == state.next_offset
        assert taken.controller_epoch == state.controller_epoch
        assert same(restored(list(taken.values())), state)


def test_a_snapshot_is_of_the_moment_it_was_taken_in() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2), segment_bytes="1000")
    before = cluster.replayed()
    taken = take(cluster.state)
    cluster.fence(B1)
    cluster.alter("t", {"segment.bytes": "2000"}, topic="t")
    cluster.topic("u", (B2,))
    assert same(restored(list(taken.values())), before)


def test_what_this_version_does_not_know_is_an_error() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,))
    values = list(take(cluster.state).values())
    for index, value in enumerate(values):
        entry = msgspec.json.decode(value)
        entry["fields"]["of_tomorrow"] = 1
        changed = [*values[:index], msgspec.json.encode(entry), *values[index + 1 :]]
        with pytest.raises(LaterRecord, match="of_tomorrow"):
            restored(changed)
    with pytest.raises(ValueError, match="not a snapshot record of this version"):
        restored([*values, b'{"type":"Topic","name":"t"}'])
    with pytest.raises(ValueError, match="record 0 of the snapshot is out of place"):
        restored(values[1:])
    with pytest.raises(ValueError, match="record 1 of the snapshot is out of place"):
        restored([values[0], *values])


def test_a_field_that_an_older_snapshot_lacks_has_its_default() -> None:
    cluster = Cluster([B1])
    values = list(take(cluster.state).values())
    for index, name in ((0, "dynamic_defaults"), (1, "in_controlled_shutdown")):
        entry = msgspec.json.decode(values[index])
        del entry["fields"][name]
        values[index] = msgspec.json.encode(entry)
    assert same(restored(values), cluster.state)


def test_the_starts_that_a_memory_is_held_against_are_bounded() -> None:
    cluster = Cluster([B1])
    state = cluster.state
    first = state.last_offset
    for epoch in range(2, EPOCH_STARTS_MAX + 4):
        state.replay(ControllerEpochRecord(epoch=ControllerEpoch(epoch)), state.next_offset)
    assert len(state.epoch_starts) == EPOCH_STARTS_MAX
    assert state.epoch_at(MetadataOffset(first)) is None
    oldest, oldest_epoch = state.epoch_starts[0]

    def refused(offset: int, epoch: int) -> bool:
        memory = {"store_id": STORE, "controller_epoch": epoch, "metadata_offset": offset}
        answer = cluster.decide_registration(registration(B2, "one", **memory)).answer
        return isinstance(answer, StoreMismatch)

    assert not refused(first, 1)
    assert refused(first, oldest_epoch)
    assert not refused(oldest, oldest_epoch)
    assert refused(oldest, oldest_epoch - 1)
    assert refused(state.last_offset + 1, state.controller_epoch)
