"""Metrics and health of real processes over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cluster import eventually
from support.scrape import get, scrape

if TYPE_CHECKING:
    from support.cluster import MakeCluster

pytestmark = pytest.mark.integration


def test_each_process_serves_metrics_and_health_at_a_port_of_its_own(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=1, metrics_port=0)
    for process_id in cluster.process_ids:
        address = cluster.metrics_address(process_id)
        assert address is not None
        assert get(address, "/healthz") == (200, "alive\n")
        assert get(address, "/readyz") == (200, "ready\n")
        assert get(address, "/")[0] == 404
    broker = scrape(cluster, 1)
    assert broker.value("strandline_requests_total", method="Metadata") > 0
    assert (
        scrape(cluster, "controller").value(
            "strandline_requests_total", method="BrokerRegistration"
        )
        == 1
    )
    cluster.kill("controller")
    cluster.restart(1, wait_s=0)
    address = cluster.metrics_address(1)
    assert address is not None

    def waits() -> bool:
        try:
            status, why = get(address, "/readyz")
        except OSError:
            return False  # the listener is not bound yet
        return status == 503 and "not registered with the controller" in why

    eventually(waits, "the broker without a controller says why it is not ready")
    assert get(address, "/healthz") == (200, "alive\n")
