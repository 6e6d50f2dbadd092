"""docs/reference/pipelines.md, from the pipelines that ship."""

from typing import Final

from reference.words import GENERATED
from strandline_spark.examples import NAMES, text_of

TITLES: Final = {
    "access": "The access log of nginx and other web servers",
    "clickstream": "A clickstream with nested pages",
    "cloudevents": "CloudEvents",
    "debezium": "Change events of Debezium",
    "exports": "Exports in CSV",
    "flights": "Flights, as the demo sends them",
    "syslog": "Syslog",
}
HEAD: Final = f"""\
# Pipelines to begin with

{GENERATED}
Each of these files is complete. Print one, change its topics and run it:

    strandline-spark example debezium > pipeline.toml
    strandline-spark run pipeline.toml --bootstrap 127.0.0.1:9092

[The guide](../guide/spark/pipelines.md#pipelinetoml) has all keys. Tests run each file and compare
its tables with plain loops over the records.
"""


def pipelines() -> str:
    parts = [f"## {TITLES[name]}\n\n```toml\n{text_of(name)}```\n" for name in NAMES]
    return "\n".join([HEAD, *parts])
