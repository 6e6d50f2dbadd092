"""The profile `metrics` of docker-compose.yml: its parts name each other rightly."""

import re
from typing import Final

import pytest

from support.tidy_tree import ROOT

TEXT: Final = (ROOT / "docker-compose.yml").read_text()
METRICS: Final = ROOT / "deploy" / "metrics"
PROMETHEUS: Final = (METRICS / "prometheus.yml").read_text()
GRAFANA: Final = METRICS / "grafana" / "provisioning"


def service(name: str) -> str:
    """The lines of one service."""
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", TEXT, re.MULTILINE)
    assert found is not None, name
    return found[1]


def mounts(name: str) -> dict[str, str]:
    """The files of the repository by their places in the container."""
    found = re.findall(r"- \./(\S+):(/\S+):ro", service(name))
    return {there: here for here, there in found}


def test_both_services_are_of_the_profile_alone() -> None:
    for name in ("prometheus", "grafana"):
        assert "profiles: [metrics]" in service(name)
    for name in ("controller", "broker-1", "broker-2", "broker-3"):
        assert "profiles:" not in service(name)


def test_each_mounted_file_is_in_the_repository() -> None:
    places = mounts("prometheus") | mounts("grafana")
    assert len(places) == 4
    for here in places.values():
        assert (ROOT / here).exists(), here


def test_prometheus_asks_every_server_at_its_port_for_metrics() -> None:
    targets = re.findall(r'"([\w-]+):(\d+)"', PROMETHEUS)
    services = TEXT[TEXT.index("\nservices:") : TEXT.index("\nvolumes:")]
    names = re.findall(r"^  (controller|broker-\d+):$", services, re.MULTILINE)
    assert sorted(name for name, _ in targets) == sorted(names)
    ports = set(re.findall(r"STRANDLINE_METRICS_LISTENERS: [\d.]+:(\d+)", TEXT))
    assert {port for _, port in targets} == ports
    (job,) = re.findall(r"job_name: (\w+)", PROMETHEUS)
    assert f'job="{job}"' in (METRICS / "alerts.yml").read_text(), "the rules name this job"


def test_prometheus_finds_its_rules() -> None:
    (rules,) = re.findall(r"^  - (/\S+\.yml)$", PROMETHEUS, re.MULTILINE)
    assert mounts("prometheus")[rules] == "deploy/metrics/alerts.yml"
    assert mounts("prometheus")["/etc/prometheus/prometheus.yml"] == "deploy/metrics/prometheus.yml"


def test_grafana_finds_its_dashboard_and_its_source() -> None:
    places = mounts("grafana")
    assert places["/etc/grafana/provisioning"] == "deploy/metrics/grafana/provisioning"
    provider = (GRAFANA / "dashboards" / "strandline.yml").read_text()
    (folder,) = re.findall(r"path: (/\S+)", provider)
    (home,) = re.findall(r"HOME_DASHBOARD_PATH: (/\S+)", service("grafana"))
    assert home.startswith(f"{folder}/")
    assert (ROOT / places[folder] / home.removeprefix(f"{folder}/")).exists()
    (source,) = (GRAFANA / "datasources").glob("*.yml")
    (host, port) = re.findall(r"url: http://([\w-]+):(\d+)", source.read_text())[0]
    assert re.search(rf":{port}\"$", service(host), re.MULTILINE), "the port that it publishes"


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("prometheus", "PROMETHEUS_IMAGE"),
        ("prometheus", "PROMETHEUS_PORT"),
        ("grafana", "GRAFANA_IMAGE"),
        ("grafana", "GRAFANA_PORT"),
    ],
)
def test_each_default_can_be_replaced_as_the_guide_says(name: str, variable: str) -> None:
    assert f"${{{variable}:-" in service(name)
    assert f"`{variable}`" in (ROOT / "docs" / "guide" / "monitoring.md").read_text()
