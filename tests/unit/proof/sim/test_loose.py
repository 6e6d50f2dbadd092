"""What producers with acks of 0 and 1 are held to."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.loose import Loose, Sent
from strandline_proof.sim.oracles.violation import Violation

ALL = {
    0: Sent(1, "ok", 0, 5),
    1: Sent(0, "ok", -1, -1),
    2: Sent(1, "failed"),
    3: Sent(1),
}


def judge(final: dict[int, tuple[int, int]], *, epoch: int = 5, **how: Any) -> Counter[str]:
    """`final`: by offset, value and epoch; the partition's leader epoch is `epoch` now."""
    world: Any = SimpleNamespace()
    some: Counter[str] = Counter()
    loose = Loose(world, some)
    loose.sent = dict(ALL)
    loose.final, loose.is_complete = final, how.pop("complete", True)
    loose.read = how.pop("read", {})
    loose.check_end(epoch, excused=how.pop("excused", False))
    return some


def test_what_was_acknowledged_is_there_and_what_was_not_may_be() -> None:
    judge({0: (0, 5)})
    judge({0: (0, 5), 1: (1, 5), 2: (3, 5)}, read={1: 1})


def test_it_may_be_gone_after_an_election() -> None:
    gone = "acknowledged with acks=1 and gone after an election"
    assert judge({}, epoch=6)[gone] == 1
    assert judge({0: (3, 6)}, epoch=6)[gone] == 1
    assert judge({0: (0, 5)}, epoch=6)[gone] == 0


@pytest.mark.parametrize(
    ("final", "epoch", "why"),
    [
        ({}, 5, "value 0 was acknowledged with acks=1 at offset 0 in leader epoch 5"),
        ({0: (3, 5)}, 5, "there is 3 of epoch 5 now"),
        ({0: (3, 5)}, 6, "there is 3 of epoch 5 now"),
        ({0: (0, 5), 1: (0, 5)}, 5, "value 0 stands at offsets 0 and 1"),
        ({0: (0, 5), 1: (2, 5)}, 5, "value 2 is at 1, and surely was not written"),
    ],
)
def test_a_broken_promise_is_told(final: dict[int, tuple[int, int]], epoch: int, why: str) -> None:
    with pytest.raises(Violation, match=why):
        judge(final, epoch=epoch)


def test_what_was_read_stays() -> None:
    with pytest.raises(Violation, match="value 3 was read at 1, and is there no more"):
        judge({0: (0, 5)}, read={1: 3})
    judge({0: (0, 5)}, read={1: 3}, excused=True)


def test_it_has_to_be_read_to_its_end() -> None:
    with pytest.raises(Violation, match="is not read to its end"):
        judge({}, complete=False)
    judge({}, complete=False, excused=True)
