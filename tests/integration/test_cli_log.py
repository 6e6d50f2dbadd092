"""The offline tools on directories of real servers: refused while they run, sound afterwards."""

import shutil
from pathlib import Path

from support.cluster import MakeCluster
from support.command import CompletedCommand, strandline


def _log(*arguments: object) -> CompletedCommand:
    return strandline("log", *arguments, "--format", "json")


def test_directories_are_refused_while_their_server_runs_and_sound_when_it_was_killed(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(brokers=3)
    at = ("--bootstrap", cluster.bootstrap)
    created = strandline("topic", "create", "t", "--replication-factor", 3, *at)
    assert created.status == 0, created
    values = "\n".join(map(str, range(3000)))
    assert strandline("produce", "t", *at, stdin=values).status == 0
    directories = [cluster.data_directory(name) for name in cluster.process_ids]
    for directory in directories:
        refused = _log("verify", directory)
        assert refused.status == 2
        assert "in use by a running broker" in refused.error
    cluster.kill(3)
    assert strandline("produce", "t", *at, stdin=values).status == 0
    cluster.down()
    for directory in directories:
        assert _log("verify", directory).json["sound"] is True, directory

    first, second, killed = (cluster.data_directory(i) / "t-0" for i in cluster.broker_ids)
    assert _log("diff", first, second).json["outcome"] == "identical"
    lagging = _log("diff", first, killed).json
    assert lagging["outcome"] == "prefix"
    assert (lagging["a"]["log_end"], lagging["b"]["log_end"]) == (6000, 3000)
    dumped = _log("dump", first, "--deep")
    assert dumped.status == 0
    assert dumped.out.count('"offset"') == 6000

    copy = tmp_path / "t-0"
    shutil.copytree(second, copy)
    log = next(copy.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-7] + b"?" + log.read_bytes()[-6:])
    assert _log("verify", copy).status == 1
    assert _log("diff", first, copy).json["outcome"] == "prefix"
