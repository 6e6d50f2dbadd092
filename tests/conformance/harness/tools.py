"""Apache Kafka's own tools, run as their scripts run them."""

from __future__ import annotations

import subprocess

from conformance.harness import installed

TOOL_TIMEOUT_S = 90
TOOLS = "org.apache.kafka.tools"


class Tools:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def run(self, name: str, *options: str, stdin: str = "") -> str:
        """What the tool prints. Fails unless it ends with status 0."""
        command = [*installed.tool(name), "--bootstrap-server", self._bootstrap, *options]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == 0, f"{name} {options}: {printed[-2000:]}"
        return printed
