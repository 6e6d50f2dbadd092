"""Writes the generated documents from the code: docs/reference/ and proof/planted-bugs.md.

`--check` writes nothing and fails if a committed file differs.
"""

import argparse
from pathlib import Path

from md_table import table
from proof_tables import proof_tables
from strandline_broker.config.key import Key
from strandline_broker.config.keys import BROKER_KEYS, CONTROLLER_KEYS
from strandline_broker.core.groups.group_config import GROUP_KEYS
from strandline_broker.core.topic_config import TOPIC_KEYS
from strandline_proto.errors import ERRORS

ROOT = Path(__file__).resolve().parent.parent
HEAD = """\
# Reference

Made from the code by `make docs`; change it there.

Configuration keys are Kafka's. A server reads a TOML file (`--config`), then the environment
(`STRANDLINE_` and the key in capitals, dots as underscores), then `--set key=value`; the last one
wins. A key that nobody knows, or whose feature is not there yet, is an error.

A key marked as dynamic can also be altered while the servers run, for one broker or for all of them
(`strandline config alter broker`); the others need a restart.
"""
TOPICS = """\
What a topic does not set, it has from its servers. Every key can be altered at run time
(`strandline config alter topic`).
"""
GROUPS = """\
What a consumer group does not set, it has from its brokers, whose `.min.` and `.max.` keys are its
bounds. Every key can be altered at run time (`strandline config alter group`), for a group that is
yet to come too; members hear of it with their next heartbeat.
"""


def keys(declared: dict[str, Key]) -> str:
    rows = (
        (
            f"`{key.name}`",
            "must be set" if key.default is None else f"`{key.default}`" if key.default else "",
            "yes" if key.dynamic else "",
            key.doc,
        )
        for key in declared.values()
    )
    return table(("key", "default", "dynamic", "meaning"), rows)


def errors() -> str:
    rows = (
        (str(code), kind.__name__, "yes" if kind.retriable else "no", (kind.__doc__ or "").strip())
        for code, kind in ERRORS.items()
    )
    return table(("code", "error", "retriable", "meaning"), rows)


def document() -> str:
    topics = table(
        ("key", "default from", "meaning"),
        ((f"`{key.name}`", f"`{key.default_from}`", key.doc) for key in TOPIC_KEYS.values()),
    )
    groups = table(
        ("key", "default from", "meaning"),
        ((f"`{key.name}`", f"`group.{key.name}`", key.doc) for key in GROUP_KEYS.values()),
    )
    return "\n".join(
        [
            HEAD,
            f"## Broker\n\n{keys(BROKER_KEYS)}",
            f"## Controller\n\n{keys(CONTROLLER_KEYS)}",
            f"## Topics\n\n{TOPICS}\n{topics}",
            f"## Consumer groups\n\n{GROUPS}\n{groups}",
            f"## Errors\n\nNumeric codes are Kafka's.\n\n{errors()}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    only_check = parser.parse_args().check
    for name, text in (
        ("docs/reference/configuration.md", document()),
        ("proof/planted-bugs.md", proof_tables()),
    ):
        target = ROOT / name
        if not only_check:
            target.write_text(text, "utf-8")
        elif not target.is_file() or target.read_text("utf-8") != text:
            raise SystemExit(f"{name} is stale: run `make docs`")


if __name__ == "__main__":
    main()
