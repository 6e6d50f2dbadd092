"""docs/reference/configuration.md, from the declared configuration keys."""

from md_table import table
from reference.words import GENERATED
from strandline_broker.config.key import Key
from strandline_broker.config.keys import BROKER_KEYS, CONTROLLER_KEYS
from strandline_broker.core.groups.group_config import GROUP_KEYS
from strandline_broker.core.topic_config import TOPIC_KEYS

HEAD = f"""\
# Configuration

{GENERATED}
The keys have Kafka's names and meanings. A server reads them in this order, and the last value of
a key wins:

1. a TOML file (`--config`);
2. the environment: `STRANDLINE_` and the key in capitals, with underscores for dots;
3. the command line: `--set key=value`.

An unknown key is an error. A key whose feature does not exist yet is an error too.

A dynamic key can change while the servers run, for one broker or for all brokers
(`strandline config alter broker`). A change of any other key needs a restart.
"""
TOPICS = """\
A topic without a value of its own has the value of its servers. Every key can change at run time
(`strandline config alter topic`).
"""
GROUPS = """\
A consumer group without a value of its own has the value of its brokers. The brokers' `.min.` and
`.max.` keys bound it. Every key can change at run time (`strandline config alter group`), even
before the group exists. A member receives the change with its next heartbeat.
"""


def configuration() -> str:
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
            f"## Broker\n\n{_keys(BROKER_KEYS)}",
            f"## Controller\n\n{_keys(CONTROLLER_KEYS)}",
            f"## Topics\n\n{TOPICS}\n{topics}",
            f"## Consumer groups\n\n{GROUPS}\n{groups}",
        ]
    )


def _keys(declared: dict[str, Key]) -> str:
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
