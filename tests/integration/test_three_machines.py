"""docs/guide/three-machines.md: its files start a cluster, and its commands print what it shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import eventually
from support.command import clean_environ
from support.pages_that_run import Command, steps
from support.processes import free_ports
from support.tidy_tree import ROOT

pytestmark = pytest.mark.integration

PAGE = ROOT / "docs" / "guide" / "three-machines.md"
FILE = re.compile(
    r'^```toml title="(machine-\d):/etc/strandline/(\w+)\.toml"\n(.*?)^```$', re.M | re.S
)
ADDRESS = re.compile(r"(machine-\d)\.example\.com:(\d+)|0\.0\.0\.0:(\d+)")
STOP_S = 60


class OneMachine:
    """The three machines of the page, on this one: each of their ports is a free port here."""

    def __init__(self) -> None:
        self._free = iter(free_ports(16))
        self._ports = dict[tuple[str, str], int]()

    def here(self, text: str, machine: str = "") -> str:
        return ADDRESS.sub(lambda found: self._address(found, machine), text)

    def _address(self, found: re.Match[str], machine: str) -> str:
        where = (found[1] or machine, found[2] or found[3])
        if where not in self._ports:
            self._ports[where] = next(self._free)
        return f"127.0.0.1:{self._ports[where]}"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    """A controller and three brokers, started with the page's files."""
    ports, path = OneMachine(), tmp_path_factory.mktemp("machines")
    running = []
    try:
        for machine, server, text in FILE.findall(PAGE.read_text("utf-8")):
            home = path / machine
            (home / "lib").mkdir(parents=True, exist_ok=True)
            config = home / f"{server}.toml"
            config.write_text(
                ports.here(text, machine).replace("/var/lib/strandline", str(home / "lib"))
            )
            command = [sys.executable, "-m", "strandline_broker", server, "--config", str(config)]
            with (home / f"{server}.log").open("wb") as log:
                running.append(subprocess.Popen(command, env=clean_environ(), stderr=log))
        assert len(running) == 4
        yield ports
        for process in reversed(running):
            process.terminate()
            assert process.wait(STOP_S) == 0
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_each_command_of_the_page_prints_what_it_shows(machines: OneMachine) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def is_shown(step: Command) -> bool:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", machines.here(step.line)],
            env=clean_environ({"PATH": path}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode == 0 and step.gives(done.stdout)

    commands = [step for step in steps(PAGE) if isinstance(step, Command)]
    assert len(commands) == 5
    eventually(lambda: is_shown(commands[0]), str(commands[0]))
    for step in commands[1:]:
        assert is_shown(step), step
