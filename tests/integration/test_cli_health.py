"""`strandline health` of a cluster in which a broker has never been started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_local.cluster_files import CONTROLLER
from support.command import strandline

if TYPE_CHECKING:
    from support.cluster import MakeCluster


def test_a_broker_that_has_never_registered_makes_a_cluster_unhealthy(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3, up=False)
    for process in (CONTROLLER, 1, 2):
        cluster.start(process)
    first, second, third = (cluster.address(broker_id) for broker_id in (1, 2, 3))
    where = "--dir", str(cluster.directory)
    missed = strandline("health", *where)
    assert missed.status == 1
    assert "not healthy: broker 3 has never registered: start it (`strandline start 3`)" in (
        missed.out
    )
    by_address = strandline("health", "--bootstrap", f"{first},{second},{third}")
    assert by_address.status == 1
    assert f"no registered broker has the address {third}" in by_address.out
    by_number = strandline("health", "--bootstrap", first, "--brokers", "3")
    assert by_number.status == 1
    assert by_number.out == "not healthy: 2 of 3 brokers are registered (1, 2)\n"
    without = strandline("health", "--bootstrap", first, "--timeout", "1")
    assert without.status == 1
    assert "no group can begin: __consumer_offsets is made once" in without.out
    assert "no transaction can begin: __transaction_state is made once" in without.out
    alone = strandline("health", "--broker", first, "--brokers", "3")
    assert alone.status == 2
    cluster.start(3)
    assert strandline("health", *where, "--wait", "60").status == 0
