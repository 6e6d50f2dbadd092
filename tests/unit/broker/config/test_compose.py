"""The listeners of docker-compose.yml: each place has both protocols and addresses in its reach.
Its health check asks a process whether it serves clients. Each container knows the brokers, and the
Spark job has its topic before it starts.
"""

import os
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Final

import pytest

from strandline_broker.config.keys import BrokerConfig
from strandline_broker.config.listeners import passthrough_listener
from strandline_broker.config.loading import load_broker_config
from support.tidy_tree import ROOT

TEXT: Final = (ROOT / "docker-compose.yml").read_text()
SHARED: Final = TEXT[TEXT.index("x-environment:") : TEXT.index("x-broker:")]
SETTING: Final = re.compile(r"^ +(STRANDLINE_[A-Z_]+): \"?(.+?)\"?$", re.MULTILINE)
PUBLISHED: Final = re.compile(r'"127\.0\.0\.1:(\d+):(\d+)"')
HOST: Final = ("PLAINTEXT_HOST", "EXTERNAL")
CONTAINERS: Final = ("PLAINTEXT", "CONTAINERS")


def block(broker: int) -> str:
    """The broker's service, with the default of each variable."""
    text = TEXT.partition(f"\n  broker-{broker}:\n")[2].partition("\n\n")[0]
    return re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text)


def broker(number: int) -> BrokerConfig:
    environ = dict(SETTING.findall(SHARED)) | dict(SETTING.findall(block(number)))
    return load_broker_config(None, {}, environ)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_kafka_has_the_usual_port_and_grpc_ten_thousand_above_in_each_place(number: int) -> None:
    config = broker(number)
    told = {each.name: config.advertised(each.name) for each in config.listeners}
    assert {name: str(each).partition("://")[2] for name, each in told.items()} == {
        "PLAINTEXT_HOST": f"127.0.0.1:{9091 + number}",
        "EXTERNAL": f"127.0.0.1:{19_091 + number}",
        "PLAINTEXT": f"broker-{number}:9092",
        "CONTAINERS": f"broker-{number}:19092",
        "INTERNAL": f"broker-{number}:9192",
    }
    assert {each.name for each in config.kafka_listeners} == {"PLAINTEXT_HOST", "PLAINTEXT"}
    assert config.inter_broker_listener_name == "INTERNAL"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_http2_goes_on_to_a_listener_of_the_same_place(number: int) -> None:
    config = broker(number)
    for kafka, grpc in (HOST, CONTAINERS):
        assert passthrough_listener(config, kafka).name == grpc


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_published_ports_lead_to_the_listeners_that_advertise_them(number: int) -> None:
    config = broker(number)
    published = {int(outside): int(inside) for outside, inside in PUBLISHED.findall(block(number))}
    assert published == {
        config.advertised(each.name).port: each.port
        for each in config.listeners
        if each.name in HOST
    }


def health_check(answer: bytes | None) -> subprocess.CompletedProcess[str]:
    """Run the check against a server that gives this answer; None: nothing listens."""
    block = TEXT[TEXT.index("- CMD\n") : TEXT.index("    interval:")]
    program, option, script = (line.strip() for line in re.split(r"\n +- ", block)[1:])
    script = " ".join(script.removeprefix(">-").split("\n")).replace("$$", "$")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if answer is None:
            server.close()
        else:
            threading.Thread(target=serve_once, args=(server, answer), daemon=True).start()
        command = [program, option, script.replace("127.0.0.1/9400", f"127.0.0.1/{port}")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def serve_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        asked = b""
        while b"\r\n\r\n" not in asked and (more := connection.recv(1000)):
            asked += more
        connection.sendall(
            answer if asked == b"GET /readyz HTTP/1.0\r\n\r\n" else b"HTTP/1.1 400 ?"
        )


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: no bash found")
def test_a_container_is_healthy_while_its_process_serves_clients() -> None:
    healthy = health_check(b"HTTP/1.1 200 OK\r\n\r\nready\n")
    assert (healthy.returncode, healthy.stderr) == (0, "")
    unready = health_check(b"HTTP/1.1 503 Service Unavailable\r\n\r\nnot ready: logs are loading\n")
    assert unready.returncode == 1
    assert "not ready: logs are loading" in unready.stdout
    assert health_check(b"").returncode == 1
    assert health_check(None).returncode == 1


def test_the_command_line_in_each_container_knows_the_brokers() -> None:
    known = re.findall(r"STRANDLINE_BOOTSTRAP: (.+)", TEXT)
    assert known == [",".join(str(broker(number).advertised("CONTAINERS")).partition("://")[2]
                              for number in (1, 2, 3))]  # fmt: skip
    server = TEXT[TEXT.index("x-server:") : TEXT.index("x-environment:")]
    assert "environment: &bootstrap" in server
    for service in re.split(r"^  (?=[a-z0-9-]+:$)", TEXT.partition("\nservices:")[2], flags=re.M):
        ours = "<<: *server" in service or "<<: *broker" in service or "build:" in service
        named = "<<: *bootstrap" in service or "<<: *environment" in service
        assert named or not (ours and "environment:" in service), service
    assert "<<: *bootstrap" in SHARED


def ingest(folder: Path, topic: str, *words: str, missing: bool = False) -> list[str]:
    """The commands that the container of the Spark job runs, with programs that only note them."""
    script = TEXT[TEXT.index("        if [ ") : TEXT.index("      - strandline-spark\n")]
    script = " ".join(script.split("\n")).replace("$$", "$")
    noted = folder / "noted"
    for program in ("strandline", "strandline-spark"):
        status = int(missing and program == "strandline")
        file = folder / program
        file.write_text(f'#!/bin/sh\necho {program} "$@" >> {noted}\nexit {status}\n')
        file.chmod(0o755)
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "TOPIC": topic}
    command = ["bash", "-c", script, "strandline-spark", *words]
    ended = subprocess.run(command, env=environ, timeout=60, check=False)
    assert ended.returncode == int(missing)
    return noted.read_text().splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: no bash found")
def test_the_spark_job_waits_for_its_topics_and_other_commands_do_not(tmp_path: Path) -> None:
    create = "strandline topic create {} --if-not-exists --wait 120"
    spark = "strandline-spark ingest bronze --topics a,b"
    words = ("ingest", "bronze", "--topics", "a,b")
    assert ingest(tmp_path, "a,b", *words) == [create.format("a"), create.format("b"), spark]
    (tmp_path / "noted").unlink()
    assert ingest(tmp_path, "a,b", *words, missing=True) == [create.format("a")]
    (tmp_path / "noted").unlink()
    assert ingest(tmp_path, "a", "verify", "/t", "a") == ["strandline-spark verify /t a"]
