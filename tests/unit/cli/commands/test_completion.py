"""Shells complete commands, options and topics."""

import shutil
import subprocess

import pytest

from strandline_cli.main import COMPLETION_VARIABLE, run
from strandline_local import probe
from strandline_proto.v1.metadata_pb2 import MetadataResponse


def completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> list[str]:
    """The offers for the last word of a line."""
    monkeypatch.setenv(COMPLETION_VARIABLE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit) as ended:
        run([])
    assert ended.value.code == 0
    return capsys.readouterr().out.split()


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    metadata = MetadataResponse()
    for name in ("orders", "orders-old", "clicks", "__consumer_offsets"):
        metadata.topics.add(name=name)

    def ask(address: str, _: float, *, topics: bool = False) -> MetadataResponse:
        assert topics
        asked.append(address)
        if address == "down:1":
            raise probe.NoAnswer("down:1 does not answer")
        return metadata

    monkeypatch.setattr(probe, "ask_metadata", ask)
    monkeypatch.setenv("STRANDLINE_BOOTSTRAP", "down:1,up:1")
    return asked


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("strandline topic desc", ["describe"]),
        ("strandline topic create --par", ["--partitions"]),
        ("strandline topic describe ord", ["orders", "orders-old"]),
        ("strandline consume c", ["clicks"]),
        ("strandline produce x", []),
    ],
)
def test_commands_options_and_topics_are_offered(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    topics: list[str],
    line: str,
    offers: list[str],
) -> None:
    assert completed(monkeypatch, capsys, line) == offers
    assert topics in ([], ["down:1", "up:1"])


def test_a_cluster_that_does_not_answer_offers_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topics: list[str]
) -> None:
    monkeypatch.setenv("STRANDLINE_BOOTSTRAP", "down:1")
    assert completed(monkeypatch, capsys, "strandline topic describe o") == []
    monkeypatch.setenv("STRANDLINE_BOOTSTRAP", "no address")
    assert completed(monkeypatch, capsys, "strandline topic describe o") == []
    assert topics == ["down:1"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_by_the_variable(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{COMPLETION_VARIABLE}=complete_{shell}" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: no bash found")
def test_bash_reads_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    script = capsys.readouterr().out + "\ncomplete -p strandline"
    read = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert read.stdout == "complete -o default -F _strandline_completion strandline\n"


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err
