"""deploy/kubernetes: objects that kubectl decodes, and settings that the servers accept."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from strandline_broker.config.loading import load_broker_config, load_controller_config
from support.tidy_tree import ROOT

MANIFEST = ROOT / "deploy" / "kubernetes" / "strandline.yaml"
KUBECTL_S = 120
DOMAIN = "prod.svc.cluster.local"
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def kubectl(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """kubectl without any cluster: each command here has --local."""
    return subprocess.run(
        [_kubectl(), *words],
        input=stdin,
        env={**os.environ, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        timeout=KUBECTL_S,
        check=False,
    )


def _kubectl() -> str:
    found = shutil.which("kubectl")
    if found is None and not IN_CI:
        pytest.skip("no kubectl found: install kubernetes-client")
    assert found is not None, "no kubectl found: install kubernetes-client"
    return found


@cache
def objects() -> list[dict[str, Any]]:
    """The objects as they are written, each with the label `read`."""
    read = kubectl("label", "--local", "--filename", str(MANIFEST), "--output", "json", "read=yes")
    assert read.returncode == 0, read.stderr
    return list(documents(read.stdout))


def documents(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        found, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        yield found


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (o for o in objects() if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return found


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = named("StatefulSet", name)["spec"]["template"]["spec"]
    return spec


def container(name: str) -> dict[str, Any]:
    (only,) = pod(name)["containers"]
    found: dict[str, Any] = only
    return found


def environ(name: str, pod_name: str) -> dict[str, str]:
    """The variables of a pod, as Kubernetes sets them. A later one sees the earlier ones."""
    fields = {"metadata.name": pod_name, "metadata.namespace": "prod"}
    values: dict[str, str] = {}
    for each in container(name)["env"]:
        if "valueFrom" in each:
            values[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        else:
            reference = r"\$\((\w+)\)"
            values[each["name"]] = re.sub(reference, lambda m: values[m[1]], each["value"])
    return values


def leaves(tree: Any, path: str = "") -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, list):
        for at, value in enumerate(tree):
            yield from leaves(value, f"{path}[{at}]")
    else:
        yield path


def unknown_fields(written: dict[str, Any]) -> set[str] | str:
    """The fields that Kubernetes' types lack, or kubectl's error."""
    words = ("set", "image", "--local", "--filename", "-", "--output", "json", "*=other:1")
    typed = kubectl(*words, stdin=json.dumps(written))
    if typed.returncode != 0:
        return typed.stderr
    (decoded,) = documents(typed.stdout)
    return set(leaves(written)) - set(leaves(decoded))


@pytest.mark.parametrize("name", ["strandline-controller", "strandline-broker"])
def test_kubernetes_knows_every_field_and_its_type(name: str) -> None:
    assert unknown_fields(named("StatefulSet", name)) == set()


def test_a_misspelt_field_and_a_wrong_type_are_found() -> None:
    written = named("StatefulSet", "strandline-broker")
    misspelt = {**written, "spec": {**written["spec"], "replica": 3}}
    assert unknown_fields(misspelt) == {".spec.replica"}
    mistyped = {**written, "spec": {**written["spec"], "replicas": "three"}}
    assert "of type int32" in str(unknown_fields(mistyped))


def test_the_objects_find_each_other() -> None:
    kinds = [(o["kind"], o["metadata"]["name"]) for o in objects()]
    assert kinds == [
        ("Service", "strandline-controller"),
        ("Service", "strandline-brokers"),
        ("Service", "strandline"),
        ("PodDisruptionBudget", "strandline-brokers"),
        ("StatefulSet", "strandline-controller"),
        ("StatefulSet", "strandline-broker"),
    ]
    for name in ("strandline-controller", "strandline-broker"):
        spec = named("StatefulSet", name)["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        service = named("Service", spec["serviceName"])["spec"]
        assert service["selector"] == labels
        assert service["clusterIP"] == "None"
        assert service["publishNotReadyAddresses"] is True
        ports = {p["name"]: p["containerPort"] for p in container(name)["ports"]}
        assert {p["name"]: p["port"] for p in service["ports"]}.items() <= ports.items()
        (volume,) = spec["volumeClaimTemplates"]
        (mount,) = container(name)["volumeMounts"]
        assert mount["name"] == volume["metadata"]["name"]
        assert environ(name, f"{name}-0")["STRANDLINE_LOG_DIRS"].startswith(mount["mountPath"])
    brokers = named("StatefulSet", "strandline-broker")["spec"]["template"]["metadata"]["labels"]
    assert named("Service", "strandline")["spec"]["selector"] == brokers
    assert "publishNotReadyAddresses" not in named("Service", "strandline")["spec"]
    budget = named("PodDisruptionBudget", "strandline-brokers")["spec"]
    assert budget["selector"]["matchLabels"] == brokers


@pytest.mark.parametrize("name", ["strandline-controller", "strandline-broker"])
def test_probes_ask_the_metrics_listener_and_no_foreign_variable_is_set(name: str) -> None:
    found = container(name)
    ports = {p["name"]: p["containerPort"] for p in found["ports"]}
    listener = environ(name, f"{name}-0")["STRANDLINE_METRICS_LISTENERS"]
    assert listener == f"0.0.0.0:{ports['metrics']}"
    assert found["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert found["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert "startupProbe" not in found
    # A Service named `strandline` would set STRANDLINE_SERVICE_HOST, which is no key.
    assert pod(name)["enableServiceLinks"] is False


def test_the_servers_accept_the_settings_of_each_pod() -> None:
    controller = environ("strandline-controller", "strandline-controller-0")
    loaded = load_controller_config(None, {}, controller)
    (listener,) = loaded.listeners
    assert listener.host == f"strandline-controller-0.strandline-controller.{DOMAIN}"
    broker = {
        **environ("strandline-broker", "strandline-broker-2"),
        "STRANDLINE_NODE_ID": node_id("strandline-broker-2"),
    }
    config = load_broker_config(None, {}, broker)
    assert config.node_id == 3
    (bootstrap,) = config.controller_quorum_bootstrap_servers
    assert (bootstrap.host, bootstrap.port) == (listener.host, listener.port)
    host = f"strandline-broker-2.strandline-brokers.{DOMAIN}"
    advertised = {each.name: (each.host, each.port) for each in config.advertised_listeners}
    assert advertised == {"PLAINTEXT": (host, 9092), "GRPC": (host, 19092)}


def node_id(pod_name: str) -> str:
    """The node id that the pod's shell computes."""
    assert container("strandline-broker")["command"] == ["sh", "-c"]
    (script,) = container("strandline-broker")["args"]
    assert script.endswith("; exec python -m strandline_broker broker")
    asked = subprocess.run(
        ["sh", "-c", script.replace("exec python -m strandline_broker broker", "env")],
        env={"POD_NAME": pod_name, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=KUBECTL_S,
    )
    (value,) = re.findall(r"^STRANDLINE_NODE_ID=(.*)$", asked.stdout, re.MULTILINE)
    return str(value)
