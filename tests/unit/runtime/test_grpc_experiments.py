"""Programs of ours turn gRPC's event engine off before they import grpc; the library does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline_runtime.grpc_experiments import WITHOUT_EVENT_ENGINE

TOLD = "GRPC_EXPERIMENTS when grpc was imported: "
DEADLINE_S = 60.0
WATCH = f"""
import os, sys

class Watch:
    def find_spec(self, name, path, target=None):
        if name == "grpc":
            print("{TOLD}" + repr(os.environ.get("GRPC_EXPERIMENTS")), flush=True)
            os._exit(0)

sys.meta_path.insert(0, Watch())
"""
NOBODY = "127.0.0.1:1"
SERVER = "--set node.id=1 --set log.dirs=data --set listeners=PLAINTEXT://127.0.0.1:0"
QUORUM = f"--set controller.quorum.bootstrap.servers={NOBODY}"
COMMAND = "from strandline_cli.main import main; main()"
PROGRAMS = {
    "broker": f"-m strandline_broker broker {SERVER} {QUORUM}".split(),
    "controller": f"-m strandline_broker controller {SERVER}".split(),
    "command": ["-c", COMMAND, *f"topic list --bootstrap {NOBODY}".split()],
    "bench": f"-m strandline_bench.main latency --records 1 --bootstrap {NOBODY}".split(),
    "workload": f"-m strandline_chaos.live.workload --bootstrap {NOBODY}".split(),
    "spark": (
        "-m strandline_spark.commands.main ingest bronze --topics orders --table table"
        f" --checkpoint kept --bootstrap {NOBODY}"
    ).split(),
}
APPLICATIONS = {
    "client": "import strandline; strandline.Producer; import grpc",
    "spark driver": "import strandline_spark.cluster.cluster",
}


def when_grpc_is_imported(folder: Path, arguments: list[str], given: str | None) -> str:
    (folder / "sitecustomize.py").write_text(WATCH)
    environment = {k: v for k, v in os.environ.items() if k != "GRPC_EXPERIMENTS"}
    environment |= {"PYTHONPATH": str(folder)} | (
        {} if given is None else {"GRPC_EXPERIMENTS": given}
    )
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert TOLD in ended.stdout, ended
    return ended.stdout.partition(TOLD)[2].strip()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_without_the_event_engine(program: str, tmp_path: Path) -> None:
    assert when_grpc_is_imported(tmp_path, PROGRAMS[program], None) == repr(WITHOUT_EVENT_ENGINE)


@pytest.mark.parametrize("given", ["", "tcp_rcv_lowat"])
def test_what_the_user_set_stays(given: str, tmp_path: Path) -> None:
    assert when_grpc_is_imported(tmp_path, PROGRAMS["command"], given) == repr(given)


@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_application_keeps_its_environment(application: str, tmp_path: Path) -> None:
    arguments = ["-c", APPLICATIONS[application]]
    assert when_grpc_is_imported(tmp_path, arguments, None) == "None"
