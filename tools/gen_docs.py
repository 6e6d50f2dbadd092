"""Writes the generated documents from the code: docs/reference/ and proof/planted-bugs.md.

`--check` writes nothing and fails if a committed file differs.
"""

import argparse
from pathlib import Path

from proof_tables import proof_tables
from reference.client_api import client_api
from reference.client_names import client_names
from reference.commands import command_line
from reference.compatibility import compatibility
from reference.configuration import configuration
from reference.errors import errors
from reference.kafka_protocol import kafka_protocol
from reference.metrics import metrics
from reference.pipelines import pipelines

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    "docs/reference/configuration.md": configuration,
    "docs/reference/errors.md": errors,
    "docs/reference/kafka-protocol.md": kafka_protocol,
    "docs/compatibility.md": compatibility,
    "docs/reference/metrics.md": metrics,
    "docs/reference/pipelines.md": pipelines,
    "docs/reference/command-line.md": command_line,
    "docs/reference/client-api.md": client_api,
    "docs/reference/client-names.md": client_names,
    "proof/planted-bugs.md": proof_tables,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    only_check = parser.parse_args().check
    for name, written in DOCUMENTS.items():
        target, text = ROOT / name, written()
        if not only_check:
            target.write_text(text, "utf-8")
        elif not target.is_file() or target.read_text("utf-8") != text:
            raise SystemExit(f"{name} is stale: run `make docs`")


if __name__ == "__main__":
    main()
