"""Scrapes of real processes over HTTP."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.samples import Sample

    from strandline_local.local_cluster import LocalCluster, ProcessId


def get(address: str, path: str) -> tuple[int, str]:
    """The status and the body of the answer."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Scrape:
    """The samples that one process shows at one moment."""

    def __init__(self, text: str) -> None:
        self.text = text
        families = text_string_to_metric_families(text)
        self.samples: list[Sample] = [each for family in families for each in family.samples]

    def names(self) -> set[str]:
        return {sample.name for sample in self.samples}

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of the samples that have these labels."""
        return [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """The value of the only sample with these labels."""
        found = self.values(name, **labels)
        assert len(found) == 1, (name, labels, found)
        return found[0]


def scrape(cluster: LocalCluster, process_id: ProcessId) -> Scrape:
    address = cluster.metrics_address(process_id)
    assert address is not None, process_id
    status, text = get(address, "/metrics")
    assert status == 200, text
    return Scrape(text)


def scrapes(cluster: LocalCluster, process_ids: Iterable[ProcessId]) -> list[Scrape]:
    return [scrape(cluster, process_id) for process_id in process_ids]
