"""The images and the compose file, tried: a cluster of containers used from inside and from the
host, killed leaders under a checking workload, the console's faults, and the Spark job.
"""

import json
import os
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from strandline_cli.cluster.console_start import TOKEN_VARIABLE
from strandline_local.cluster_files import free_ports
from support.cluster import eventually
from support.command import clean_environ, start_strandline, strandline

ROOT = Path(__file__).resolve().parents[2]
PROJECT = f"strandline-test-{zlib.crc32(str(ROOT).encode()):08x}"
"""Two checkouts on one machine do not take each other's containers away."""
INSIDE = "broker-1:9192,broker-2:9192,broker-3:9192"
BUILD_S = 900.0
COMMAND_S = 180.0
UP_S = 600.0
"""A container that does not become healthy ends the wait before, with its name."""
SPARK_S = 900.0
"""Spark starts in a container beside the other tests, and each of its stages waits for a core."""
REACHED_S = "120"
PROFILES = ("--profile", "chaos", "--profile", "spark", "--profile", "console")
DOWN = (*PROFILES, "down", "--volumes", "--timeout", "5")
"""With every profile: without it compose leaves the volume of the tables behind."""
LINES = [f"line {number}" for number in range(200)]

pytestmark = [pytest.mark.docker, pytest.mark.integration]


@dataclass(frozen=True)
class Containers:
    """A compose project that is up."""

    environ: dict[str, str]
    outside: str

    def run(self, *argv: str, deadline_s: float = COMMAND_S) -> str:
        """Run a command; its output. Fails if the command does."""
        ended = subprocess.run(
            argv,
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
        assert ended.returncode == 0, f"{argv}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def compose(self, *argv: str, deadline_s: float = COMMAND_S) -> str:
        return self.run("docker", "compose", *argv, deadline_s=deadline_s)


@pytest.fixture(scope="module")
def containers() -> Iterator[Containers]:
    all_ports = free_ports(7)
    ports, grpc_ports, console_port = all_ports[:3], all_ports[3:6], all_ports[6]
    environ = clean_environ(
        {
            "COMPOSE_PROJECT_NAME": PROJECT,
            "CONSOLE_PORT": str(console_port),
            **{f"BROKER_{i}_PORT": str(port) for i, port in enumerate(ports, start=1)},
            **{f"BROKER_{i}_GRPC_PORT": str(port) for i, port in enumerate(grpc_ports, start=1)},
        }
    )
    project = Containers(environ, ",".join(f"127.0.0.1:{port}" for port in ports))
    project.compose(*DOWN)
    try:
        project.compose("--profile", "chaos", "--profile", "console", "build", deadline_s=BUILD_S)
        project.compose("up", "--detach", "--wait", deadline_s=UP_S)
        yield project
    finally:
        project.compose(*DOWN)


@pytest.fixture(scope="module")
def spark_image(
    containers: Containers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], None]]:
    """Begins to build the image of the Spark job. The function waits for the end of the build."""
    said = tmp_path_factory.mktemp("build") / "log"
    with said.open("wb") as log:
        building = subprocess.Popen(
            ["docker", "compose", "--profile", "spark", "build", "ingest"],
            cwd=ROOT,
            env=containers.environ,
            stdout=log,
            stderr=log,
        )

    def wait() -> None:
        assert building.wait(BUILD_S) == 0, said.read_text()

    yield wait
    building.kill()
    building.wait()


@pytest.mark.usefixtures("spark_image")
def test_records_go_in_from_the_host_and_come_out_inside(containers: Containers) -> None:
    created = strandline(
        *("topic", "create", "lines", "--partitions", "3", "--replication-factor", "3"),
        *("--bootstrap", containers.outside),
    )
    assert created.status == 0, created
    produced = strandline(
        "produce", "lines", "--bootstrap", containers.outside, stdin="\n".join(LINES) + "\n"
    )
    assert produced.status == 0, produced
    consumed = containers.compose(
        *("exec", "-T", "broker-2", "strandline", "consume", "lines", "--from-beginning"),
        *("-f", "%v\\n", "--exit-at-end"),
    )
    assert sorted(consumed.splitlines()) == sorted(LINES)


def test_each_side_is_told_addresses_that_it_can_reach(containers: Containers) -> None:
    outside = strandline("status", "--bootstrap", containers.outside, "--format", "json").json
    assert [broker["state"] for broker in outside["brokers"]] == ["UNFENCED"] * 3
    inside = json.loads(
        containers.compose(
            *("exec", "-T", "broker-3", "strandline", "status", "--bootstrap", INSIDE),
            *("--format", "json"),
        )
    )
    assert [broker["id"] for broker in inside["brokers"]] == [1, 2, 3]


def test_each_side_reaches_the_addresses_of_both_protocols(containers: Containers) -> None:
    outside = strandline(
        *("doctor", "--listener", "PLAINTEXT_HOST", "--listener", "EXTERNAL"),
        *("--bootstrap", containers.outside, "--timeout", REACHED_S),
    )
    assert outside.status == 0, outside
    inside = json.loads(
        containers.compose(
            *("exec", "-T", "broker-3", "strandline", "doctor", "--bootstrap", "broker-1:9092"),
            *("--listener", "PLAINTEXT", "--listener", "CONTAINERS", "--listener", "INTERNAL"),
            *("--format", "json", "--timeout", REACHED_S),
        )
    )
    assert [each["reached"] for each in inside["listeners"]] == [True] * 9


def test_the_processes_do_not_run_as_root(containers: Containers) -> None:
    for service in ("controller", "broker-1"):
        assert containers.compose("exec", "-T", service, "id", "-u").strip() != "0"


@pytest.mark.proof
def test_a_killed_leader_loses_nothing(containers: Containers, tmp_path: Path) -> None:
    containers.environ.update(ROUNDS="1", SECONDS_UP="2", SECONDS_DOWN="2", RATE="25")
    containers.environ["PAGE"] = str(tmp_path / "page.html")
    said = containers.run(str(ROOT / "chaos" / "kill_leader.sh"), deadline_s=400)
    assert said.splitlines()[-1].startswith("verdict: sound"), said
    assert said.count(": kill leader") == 2, "it begins and ends"


def test_a_broker_that_is_cut_off_loses_nothing(containers: Containers, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can enter the network namespace of a container")
    containers.environ.update(ROUNDS="1", SECONDS_UP="2", SECONDS_DOWN="4", RATE="25")
    containers.environ["PAGE"] = str(tmp_path / "page.html")
    said = containers.run(str(ROOT / "chaos" / "partition.sh"), deadline_s=400)
    assert said.splitlines()[-1].startswith("verdict: sound"), said
    assert "end   1: partition " in said


@pytest.mark.proof
@pytest.mark.parametrize(
    ("script", "begun"), [("pause.sh", ": pause "), ("kill_random.sh", ": kill ")]
)
def test_what_a_script_breaks_loses_nothing(
    containers: Containers, tmp_path: Path, script: str, begun: str
) -> None:
    containers.environ.update(ROUNDS="1", SECONDS_UP="2", SECONDS_DOWN="2", RATE="25")
    containers.environ["PAGE"] = str(tmp_path / "page.html")
    said = containers.run(str(ROOT / "chaos" / script), deadline_s=400)
    assert said.splitlines()[-1].startswith("verdict: sound"), said
    assert said.count(begun) == 2, "it begins and ends"


def test_the_profile_of_metrics_is_a_valid_configuration(containers: Containers) -> None:
    text = containers.compose("--profile", "metrics", "config", "--format", "json")
    services = json.loads(text)["services"]
    without = json.loads(containers.compose("config", "--format", "json"))["services"]
    assert services.keys() - without.keys() == {"prometheus", "grafana"}
    for name in ("prometheus", "grafana"):
        for volume in services[name]["volumes"]:
            assert Path(volume["source"]).exists(), volume


def test_the_console_in_a_container_watches_all_servers_and_is_read_only(
    containers: Containers,
) -> None:
    containers.compose("--profile", "console", "up", "--detach", "console", deadline_s=UP_S)
    address = f"http://127.0.0.1:{containers.environ['CONSOLE_PORT']}/"

    def all_watched() -> bool:
        try:
            servers = ask(address, "at")["state"]["servers"].values()
        except OSError:
            return False  # it is starting
        return len(servers) == 4 and all(each["state"] == "watching" for each in servers)

    eventually(all_watched, "every server is watched")
    with urlopen(address, timeout=60) as page:
        assert b'<script src="app.js"' in page.read()
    assert "it listens on 0.0.0.0" in ask(address, "faults")["reason"]
    with pytest.raises(HTTPError, match="403"):
        ask(address, "faults", {"kind": "kill", "target": "broker-1", "duration_s": 1})
    containers.compose("--profile", "console", "stop", "--timeout", "5", "console")


def test_the_console_cuts_a_broker_off_and_heals_it(containers: Containers) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can enter the network namespace of a container")
    with start_strandline(
        ["console", "--compose", "--port", "0", "--wait", REACHED_S],
        environ={**containers.environ, TOKEN_VARIABLE: "secret"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as console:
        assert console.stdout is not None
        try:
            line = console.stdout.readline().decode()
            cut_a_broker_off(line.removeprefix("The console is at ").strip())
        finally:
            console.terminate()
            assert console.wait(COMMAND_S) == 0


def ask(address: str, path: str, body: Any = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer secret"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{address}api/{path}", data, headers), timeout=60) as answer:
        return json.loads(answer.read())


def cut_a_broker_off(address: str) -> None:
    def state() -> Any:
        return ask(address, "at")["state"]

    def all_watched() -> bool:
        servers = state()["servers"].values()
        return len(servers) == 4 and all(each["state"] == "watching" for each in servers)

    eventually(all_watched, "every server is watched")
    ask(address, "workload", {"running": True, "records_per_s": 50})
    eventually(lambda: state()["workload"]["read"] > 0, "the workload runs")
    fault = ask(address, "faults", {"kind": "cut_off", "target": "broker-2", "duration_s": 600})
    eventually(lambda: state()["servers"]["broker-2"]["state"] == "absent", "the cut is seen")
    before = state()["workload"]["read"]
    eventually(lambda: state()["workload"]["read"] > before, "the others serve")
    ask(address, f"faults/{fault['id']}/heal", {})
    eventually(lambda: state()["faults"][fault["id"]]["state"] == "healed", "the fault heals")
    eventually(all_watched, "the broker is back")
    assert (state()["workload"]["lost"], state()["workload"]["doubled"]) == (0, 0)


@pytest.mark.proof
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """In a project of its own, whose brokers have small disks."""
    ports = free_ports(6)
    environ = clean_environ(
        {
            "COMPOSE_PROJECT_NAME": f"{PROJECT}-disks",
            "COMPOSE_FILE": "docker-compose.yml:chaos/small-disks.yml",
            "DISK_SIZE": "64m",
            **{f"BROKER_{i}_PORT": str(port) for i, port in enumerate(ports[:3], start=1)},
            **{f"BROKER_{i}_GRPC_PORT": str(port) for i, port in enumerate(ports[3:], start=1)},
            **{"ROUNDS": "1", "SECONDS_UP": "2", "SECONDS_DOWN": "3", "RATE": "25"},
            "PAGE": str(tmp_path / "page.html"),
        }
    )
    project = Containers(environ, "")
    try:
        project.compose("--profile", "chaos", "build", deadline_s=BUILD_S)
        project.compose("up", "--detach", "--wait", deadline_s=UP_S)
        said = project.run(str(ROOT / "chaos" / "fill_disk.sh"), deadline_s=400)
    finally:
        project.compose(*DOWN)
    assert said.splitlines()[-1].startswith("verdict: sound"), said
    assert said.count(": disk-full ") == 2, "it begins and ends"


def test_a_broker_that_is_stopped_leaves_in_order(containers: Containers) -> None:
    containers.compose("stop", "broker-3")
    container = containers.compose("ps", "--all", "--quiet", "broker-3").strip()
    state = containers.run("docker", "inspect", "-f", "{{.State.ExitCode}}", container)
    assert state.strip() == "0", "SIGTERM is a controlled shutdown, no SIGKILL was needed"
    containers.compose("start", "broker-3")
    healthy = strandline("health", "--wait", "60", "--bootstrap", containers.outside, deadline_s=90)
    assert healthy.status == 0, healthy


def test_the_spark_container_writes_the_table_and_proves_it(
    containers: Containers, spark_image: Callable[[], None]
) -> None:
    containers.environ.update(TOPIC="lines")
    spark_image()
    spark = ("--profile", "spark", "run", "--rm", "-T", "ingest")
    containers.compose(*spark, deadline_s=SPARK_S)
    verify = ("verify", "/tables/bronze/lines", "lines", "--bootstrap", INSIDE)
    verdict = containers.compose(*spark, *verify, deadline_s=SPARK_S)
    assert verdict.splitlines()[-1] == "sound: every offset once"
    assert sum(int(line.split()[1]) for line in verdict.splitlines()[1:4]) == len(LINES)
