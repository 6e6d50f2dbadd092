"""Server processes started by hand, with their settings on the command line."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from strandline_local.cluster_files import free_ports
from support.cluster import eventually

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "REFUSED_CONNECTION",
    "broker_settings",
    "command",
    "controller_settings",
    "free_ports",
    "until_listening",
]

REFUSED_CONNECTION = "127.0.0.1:1"


def command(server: str, **settings: str) -> list[str]:
    words = [sys.executable, "-m", "strandline_broker", server]
    for name, value in settings.items():
        words += ["--set", f"{name.replace('_', '.')}={value}"]
    return words


def broker_settings(path: Path, port: int, controller: str = REFUSED_CONNECTION) -> dict[str, str]:
    return {
        "node_id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log_dirs": str(path),
        "controller_quorum_bootstrap_servers": controller,
    }


def controller_settings(path: Path, port: int) -> dict[str, str]:
    return {
        "node_id": "100",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "log_dirs": str(path),
    }


def until_listening(port: int) -> None:
    def listening() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(listening, f"something listens on port {port}")
