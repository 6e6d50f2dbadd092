"""deploy/systemd: units that systemd accepts, and commands that the servers accept."""

import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from strandline_broker.__main__ import _parser
from support.tidy_tree import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
DATA = "/var/lib/strandline"


def read(unit: Path) -> ConfigParser:
    """The unit. A key that stands twice in a section is an error here."""
    parser = ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_the_server_of_its_name_and_limits_restarts(unit: Path) -> None:
    found = read(unit)
    python, dash, module, *words = shlex.split(found["Service"]["ExecStart"])
    assert (python, dash, module) == ("/opt/strandline/bin/python", "-m", "strandline_broker")
    parsed = _parser().parse_args(words)
    assert f"strandline-{parsed.server}" == unit.stem
    assert parsed.config == f"/etc/strandline/{parsed.server}.toml"
    assert (
        dict(found["Service"]).items()
        >= {
            "Restart": "on-failure",
            "User": "strandline",
            "LimitNOFILE": "1048576",
            "TimeoutStopSec": "30",
            "StateDirectory": Path(DATA).name,
        }.items()
    )
    assert found["Unit"]["StartLimitBurst"] == "5"


def test_the_units_differ_in_the_server_only() -> None:
    broker, controller = (
        {section: dict(read(unit)[section]) for section in read(unit).sections()} for unit in UNITS
    )
    assert [unit.stem for unit in UNITS] == ["strandline-broker", "strandline-controller"]
    for found, server in ((broker, "broker"), (controller, "controller")):
        found["Unit"]["Description"] = found["Unit"]["Description"].replace(server, "X")
        found["Service"]["ExecStart"] = found["Service"]["ExecStart"].replace(server, "X")
    broker["Service"]["ExecStart"] = broker["Service"]["ExecStart"].replace("strandline_X", "X")
    controller["Service"]["ExecStart"] = controller["Service"]["ExecStart"].replace(
        "strandline_broker", "X"
    )
    assert broker == controller


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd-analyze found: install systemd")
    copy = tmp_path / unit.name
    # It looks for the program and the user, which are not here.
    text = unit.read_text("utf-8").replace("/opt/strandline/bin/python", shutil.which("sh") or "")
    copy.write_text(text.replace("User=strandline", "User=daemon"))
    verified = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = [line for line in verified.stderr.splitlines() if copy.name in line]
    assert said == []
