"""The reference of Kafka's protocol: the served requests and their versions."""

from md_table import table
from strandline_broker.kafka.versions import NEVER, SERVED

INTRODUCTION = """\
# Kafka's protocol

Made from the code by `make docs`; change it there.

A Kafka listener serves these requests, and ApiVersions advertises them. Flexible versions have
compact lengths and tagged fields (KIP-482). Any other request, or another version, closes its
connection with one line in the broker's log. How the requests are answered:
[protocol](../internals/protocol.md#kafkas-protocol).

## Requests
"""


def kafka_protocol() -> str:
    rows = [
        (
            str(api.key),
            api.name,
            _span(api.first, api.last),
            "none" if api.flexible == NEVER else f"from {api.flexible}",
        )
        for api in sorted(SERVED)
    ]
    shown = table(("key", "request", "versions", "flexible"), rows)
    return f"{INTRODUCTION}\n{shown}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
