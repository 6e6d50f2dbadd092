"""What people ask of the controller, when one request is many decisions."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from strandline_broker.core.controller.log_ends import LogEnds
from strandline_broker.core.controller.reassignment import ReassignmentResult, Wish
from strandline_broker.hosts.controller.administration import MOVES_PER_BATCH, Administration
from strandline_proto.errors import InvalidRequest, ThrottlingQuotaExceeded
from strandline_proto.ids import BrokerId
from support.controller_cluster import B1, B2, B3, Cluster
from support.scripted_pipeline import ScriptedPipeline

B4 = BrokerId(4)
MANY = 2 * MOVES_PER_BATCH + 50


def reassign(room: int) -> tuple[list[ReassignmentResult], list[int]]:
    """Every partition of a topic to other brokers, and the first of them once more."""
    cluster = Cluster([B1, B2, B3, B4])
    cluster.topic("t", *([(B1, B2, B3)] * MANY))
    wishes = [Wish("t", index, (B2, B3, B4)) for index in range(MANY)]
    wishes.append(replace(wishes[0], target=None))
    pipeline = ScriptedPipeline(cluster, room)
    admin = Administration(
        cast("Any", None), cast("Any", None), cluster.state, cast("Any", pipeline), LogEnds()
    )
    outcomes = asyncio.run(admin.reassign(wishes))
    assert [outcome.wish for outcome in outcomes] == wishes
    return outcomes, pipeline.sizes


def test_many_moves_are_several_decisions_of_one_request() -> None:
    outcomes, sizes = reassign(room=10)
    assert sizes == [MOVES_PER_BATCH, MOVES_PER_BATCH, 50]
    assert [o for o in outcomes if o.error is not None] == outcomes[-1:]
    assert isinstance(outcomes[-1].error, InvalidRequest)


def test_moves_that_are_not_taken_any_more_say_so_each() -> None:
    outcomes, sizes = reassign(room=1)
    assert sizes == [MOVES_PER_BATCH]
    begun, others = outcomes[:MOVES_PER_BATCH], outcomes[MOVES_PER_BATCH:]
    assert all(outcome.error is None for outcome in begun)
    assert all(isinstance(outcome.error, ThrottlingQuotaExceeded) for outcome in others)
