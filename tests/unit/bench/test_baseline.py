"""`--baseline`: alternating rounds of two checkouts, medians and ratios, and clear refusals.

The sides are scripts here that answer as `strandline bench` does.
"""

import json
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from strandline_bench import baseline
from strandline_bench.main import run
from strandline_cli import main
from strandline_cli.errors import ClusterError
from strandline_runtime import grpc_experiments
from support.command import strandline

SCRIPT = """#!{python}
import json, os, signal, sys, time
from pathlib import Path

if sys.argv[1:] == ["--version"]:
    print("strandline 0.1.0")
    sys.exit(0)
calls = Path({calls!r})
with calls.open("a") as file:
    file.write(json.dumps([{name!r}, sys.argv[1:], os.environ.get("GRPC_EXPERIMENTS")]) + chr(10))
number = sum(json.loads(line)[0] == {name!r} for line in calls.read_text().splitlines()) - 1
{body}
"""
PLAIN = """
print(json.dumps({"measure": "environment", "commit": NAME, "records": 10}))
for told in ROUNDS[number]:
    print(json.dumps(told))
"""
Make = Callable[..., str]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def make(tmp_path: Path, calls: Path) -> Make:
    """A command that answers with these lines, round by round."""

    def make(name: str, *rounds: Sequence[Mapping[str, Any]], body: str = PLAIN) -> str:
        path = tmp_path / name
        body = f"NAME, ROUNDS = {name!r}, {list(rounds)!r}\n" + body
        path.write_text(
            SCRIPT.format(python=sys.executable, calls=str(calls), name=name, body=body)
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


@pytest.fixture
def own(make: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """This checkout's side answers so."""

    def own(*rounds: Sequence[Mapping[str, Any]]) -> None:
        monkeypatch.setattr(baseline, "OWN", (make("own", *rounds),))

    return own


def latency(p50_ms: float, **more: object) -> list[dict[str, object]]:
    return [{"measure": "latency", "p50_ms": p50_ms, **more, "rounds": 1}]


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rounds_alternate_and_a_ratio_is_the_median_of_theirs(
    make: Make, own: Callable[..., None], calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own(latency(1.0), latency(4.0), latency(2.0))
    other = make("other", latency(2.0), latency(2.0), latency(5.0))
    assert run(["latency", "--records", "10", "--rounds=3", "--json", "--baseline", other]) == 0
    asked = [json.loads(line) for line in calls.read_text().splitlines()]
    assert [name for name, _, _ in asked] == ["own", "other", "other", "own", "own", "other"]
    arguments = ["bench", "latency", "--records", "10", "--rounds", "1", "--format", "json"]
    assert [each for _, each, _ in asked] == [arguments] * 6
    ours, theirs, compared = told(capsys)
    assert (ours["side"], ours["commit"], ours["records"]) == ("this", "own", 10)
    assert (theirs["side"], theirs["commit"], theirs["records"]) == ("baseline", "other", 10)
    assert compared == {
        "measure": "latency",
        "figure": "p50_ms",
        "this": 2.0,
        "baseline": 2.0,
        "ratio": 0.5,
        "ratio_min": 0.4,
        "ratio_max": 2.0,
        "rounds": 3,
    }


def test_every_measure_and_figure_has_its_line(
    make: Make, own: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(factor: float, **more: float) -> list[dict[str, object]]:
        return [
            {"measure": "produce", "api": "send_many", "mb_s": 100.04 * factor, "mb_s_min": 1.0}
            | {"bound_by": f"what was found at {factor}"},
            {"measure": "produce-round", "round": 1},
            {"measure": "produce", "api": "send", "mb_s": 50.0 * factor, "lost": 0, **more},
        ]

    own(answer(2.0, brokers_cpu_ms_per_mb=3.0))
    assert run(["produce", "--rounds", "1", "--baseline", make("other", answer(1.0))]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "produce api=send_many figure=mb_s this=200.1 baseline=100.0 ratio=2.0"
        " ratio_min=2.0 ratio_max=2.0 rounds=1",
        "produce api=send figure=mb_s this=100.0 baseline=50.0 ratio=2.0"
        " ratio_min=2.0 ratio_max=2.0 rounds=1",
        "produce api=send figure=lost this=0 baseline=0 rounds=1",
        "produce api=send figure=brokers_cpu_ms_per_mb this=3.0 rounds=1",
    ]


SAID = "\nprint(json.dumps({'measure': 'environment', 'records': 10}))\n"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            "sys.exit('error: no room')",
            "the baseline failed with status 1: .*bench.*error: no room",
        ),
        ("print('mb/s: 7')", "said 'mb/s: 7' instead of figures"),
        ("pass", "does not say what it measured"),
        (SAID, "the answer of the baseline lacks latency: is its checkout older"),
        (SAID.replace("10", "20"), "records is 20 there and 10 here"),
    ],
)
def test_a_baseline_that_does_not_answer_is_an_error(
    body: str, complaint: str, make: Make, own: Callable[..., None]
) -> None:
    own(latency(1.0))
    other = make("other", body=body)
    with pytest.raises(ClusterError, match=complaint):
        run(["latency", "--baseline", other, "--rounds", "1"])


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("/nowhere/strandline", "cannot be run: /nowhere/strandline: No such file"),
        ("echo", "echo is no `strandline`: its --version is 'echo"),
        ("false", "failed with status 1"),
        ("", "is empty"),
        ("'", "No closing quotation"),
    ],
)
def test_a_command_that_is_no_strandline_is_refused_at_once(
    command: str, complaint: str, own: Callable[..., None], calls: Path
) -> None:
    own(latency(1.0))
    with pytest.raises(ClusterError, match=complaint):
        run(["latency", "--baseline", command])
    assert not calls.exists()


def test_who_takes_too_long_is_interrupted_and_may_clean_up(
    make: Make, own: Callable[..., None], tmp_path: Path
) -> None:
    own(*[latency(1.0)] * 9)
    begun, gone = tmp_path / "begun", tmp_path / "gone"
    body = f"""
try:
    Path({str(begun)!r}).touch()
    time.sleep(600)
finally:
    Path({str(gone)!r}).touch()
"""
    other = make("other", body=body)
    for seconds in ("1", "10", "60"):  # the longer ones for a machine that is busy
        with pytest.raises(
            ClusterError, match=f"has not ended within {seconds} s: .*--baseline-round"
        ):
            run(["latency", "--baseline", other, "--baseline-round-s", seconds])
        if begun.exists():
            break
    assert gone.exists()


@pytest.mark.parametrize("given", [None, "mine"])
def test_a_baseline_has_the_environment_that_the_user_gave(
    given: str | None,
    make: Make,
    own: Callable[..., None],
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = ["GRPC_EXPERIMENTS"] if given is None else []
    monkeypatch.setattr(grpc_experiments, "_added", added)
    monkeypatch.setenv("GRPC_EXPERIMENTS", given or "what this program has set")
    own(latency(1.0))
    run(["latency", "--baseline", make("other", latency(1.0)), "--rounds", "1"])
    asked = [json.loads(line) for line in calls.read_text().splitlines()]
    assert [environment for _, _, environment in asked] == [given, given]


def test_a_benchmark_against_itself(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from strandline_cli.main import main; main()'"
    arguments = f"bench log --only append --round-mb 1 --dir {tmp_path} --rounds 2".split()
    done = strandline(*arguments, "--baseline", command)
    assert done.status == 0, done
    first, second, *figures = done.out.splitlines()
    assert first.replace("side=this", "side=baseline") == second
    assert any(line.startswith("log-append-4k figure=append_mb_s ") for line in figures)


def test_a_benchmark_that_ends_with_an_error_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose(argv: list[str]) -> int:
        raise SystemExit("error: 2 acknowledged records lost")

    monkeypatch.setattr("strandline_bench.main.run", lose)
    assert main.run(["bench", "failover"]) == 1
    assert capsys.readouterr().err == "error: 2 acknowledged records lost\n"
