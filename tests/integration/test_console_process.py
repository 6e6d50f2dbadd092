"""The console over a real cluster: what a kill looks like, live and in the recording."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from strandline_cli.cluster.console_start import TOKEN_VARIABLE, RunningConsole
from strandline_local.console_process import stop_console
from support.cluster import eventually
from support.command import strandline

if TYPE_CHECKING:
    from support.cluster import MakeCluster


def ask(console: RunningConsole, path: str, body: Any = None) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {console.token}"}
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{console.address}api/{path}", data=data, headers=headers)
    with urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def state(console: RunningConsole, query: str = "") -> Any:
    return ask(console, f"at?{query}")["state"]


def test_a_kill_is_seen_heals_and_is_kept(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=3, up=False)
    where = "--dir", str(cluster.directory)
    up = strandline(
        *("up", *where, "--detach", "--console", "--console-port", "0", "--format", "json"),
        environ={TOKEN_VARIABLE: "secret"},
    )
    console = RunningConsole(**up.json["console"])
    assert console.token == "secret"
    strandline("topic", "create", "t", "--partitions", "1", *where)
    strandline("produce", "t", *where, stdin='<b>one</b>\n{"two": 2}\n')
    follow_a_kill(console)
    refused = strandline("console", *where, "--port", console.address.split(":")[2][:-1])
    assert "is in use: stop what listens there" in refused.error
    stop_console(cluster.directory)
    assert "secret" not in (cluster.directory / "logs" / "console.log").read_text()
    # The console has healed the pause at its end: a paused process would not stop in time.
    assert strandline("down", *where).status == 0


def follow_a_kill(console: RunningConsole) -> None:
    def all_watched() -> bool:
        servers = state(console)["servers"].values()
        return len(servers) == 4 and all(each["state"] == "watching" for each in servers)

    def replicas() -> Any:
        return state(console, "partition=t:0")["replicas"]

    eventually(all_watched, "every server is watched")
    eventually(
        lambda: [each["log_end"] for each in replicas().values()] == [2, 2, 2],
        "every replica has both records",
    )
    leader = next(each for each in replicas().values() if each["role"] == "leader")
    records = ask(console, "records?topic=t&partition=0")
    assert [each["value"]["text"] for each in records["records"]] == ["<b>one</b>", '{"two": 2}']
    assert [each["value"]["json"] for each in records["records"]] == [False, True]
    target = f"broker-{leader['broker']}"
    fault = ask(console, "faults", {"kind": "kill", "target": target, "duration_s": 2})
    eventually(lambda: state(console)["servers"][target]["state"] == "absent", "the kill is seen")
    eventually(
        lambda: state(console)["faults"][fault["id"]]["state"] == "healed", "the fault heals"
    )
    eventually(all_watched, "the killed broker is back")
    before = ask(console, f"at?partition=t:0&instant={fault['begun_ms'] - 1}")
    assert before["state"]["servers"][target]["state"] == "watching"
    assert before["state"]["replicas"][f"t:0@{leader['broker']}"]["role"] == "leader"
    events = ask(console, "timeline")["events"]
    kinds = {each["kind"] for each in events if each["at_ms"] >= fault["begun_ms"]}
    assert {"fault", "broker", "server"} <= kinds
    ask(console, "faults", {"kind": "pause", "target": target, "duration_s": 600})


def test_a_cluster_that_does_not_exist_is_a_sentence() -> None:
    refused = strandline("console", "--bootstrap", "127.0.0.1:1", "--port", "0", "--wait", "1")
    assert refused.status == 1
    assert refused.error.startswith("no cluster answers at 127.0.0.1:1: 127.0.0.1:1 refuses")
