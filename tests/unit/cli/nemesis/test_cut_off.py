"""Cutting a process of this machine off: its rules, and the connections that they are about."""

import os
import socket
from pathlib import Path

import pytest

from strandline_cli.errors import ClusterError
from strandline_cli.nemesis import cut_off
from strandline_cli.nemesis.cut_off import CutOff, cannot_cut_off, local_ports, rules


def test_the_rules_drop_both_directions_of_each_port_and_all_of_the_group() -> None:
    drop = ["INPUT", "-i", "lo", "-p", "tcp"]
    assert rules("a-group", {9092, 41000}) == [
        ["OUTPUT", "-o", "lo", "-m", "cgroup", "--path", "a-group", "-j", "DROP"],
        [*drop, "--sport", "9092", "-j", "DROP"],
        [*drop, "--dport", "9092", "-j", "DROP"],
        [*drop, "--sport", "41000", "-j", "DROP"],
        [*drop, "--dport", "41000", "-j", "DROP"],
    ]


def test_the_ports_of_open_connections_are_found_and_not_of_listeners() -> None:
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("no /proc/self/net/tcp here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = server.getsockname()[1]
        assert listening not in local_ports(os.getpid())
        with socket.create_connection(("127.0.0.1", listening)) as client:
            assert client.getsockname()[1] in local_ports(os.getpid())


def test_each_reason_why_none_can_be_cut_off_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_off, "has_sys_admin", lambda: False)
    assert cannot_cut_off() == "only root can drop packets on loopback"
    monkeypatch.setattr(cut_off, "has_sys_admin", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no iptables here" in str(cannot_cut_off())
    tool = tmp_path / "iptables"
    tool.write_text("#!/bin/sh\necho it has no such match >&2; exit 2\n")
    tool.chmod(0o755)
    monkeypatch.setattr(cut_off, "PROC", tmp_path)
    (tmp_path / "mounts").write_text("/dev/vda / ext4 rw 0 0\n")
    assert "no cgroup2 is mounted" in str(cannot_cut_off())
    (tmp_path / "mounts").write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    assert "it has no such match" in str(cannot_cut_off())
    assert not list(tmp_path.glob("strandline*")), "the group of the trial is gone"


def test_a_cut_that_fails_says_why() -> None:
    with pytest.raises(ClusterError, match=r"the process was not cut off: .*invalid literal"):
        CutOff("a-group", 1, ["no port"]).begin()  # type: ignore[list-item]
