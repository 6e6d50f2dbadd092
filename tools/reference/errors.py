"""docs/reference/errors.md, from the error classes of the wire, the client and the Spark jobs."""

from collections.abc import Iterator
from types import ModuleType

from md_table import table
from reference.words import GENERATED, first_sentence
from strandline import errors as client
from strandline_proto.errors import ERRORS
from strandline_spark import errors as spark

HEAD = f"""\
# Errors

{GENERATED}
A retriable error may go away: the same request may succeed later.
"""
WIRE = """\
Servers answer with these numeric codes, which are Kafka's. The client library raises each as a
class of `strandline.errors` with the same name. Errors between servers have no such class.
"""
CLIENT = """\
Every error of the library is a `strandline.errors.StrandlineError`. These have no code, since no
broker answers with them.
"""
SPARK = """\
The `strandline-spark` command and the data source raise these classes of `strandline_spark.errors`.
"""


def errors() -> str:
    wire = table(("code", "error", "retriable", "between servers only", "meaning"), _wire())
    raised = table(("error", "derives from", "retriable", "meaning"), _client())
    jobs = table(("error", "derives from", "meaning"), _spark())
    return "\n".join(
        [
            HEAD,
            f"## Error codes\n\n{WIRE}\n{wire}",
            f"## Client library\n\n{CLIENT}\n{raised}",
            f"## Spark jobs\n\n{SPARK}\n{jobs}",
        ]
    )


def _wire() -> Iterator[tuple[str, ...]]:
    for code, kind in ERRORS.items():
        retriable, apart = _yes(kind.retriable), "yes" if kind.between_servers else ""
        yield str(code), kind.__name__, retriable, apart, " ".join((kind.__doc__ or "").split())


def _client() -> Iterator[tuple[str, ...]]:
    for kind in _classes(client):
        if issubclass(kind, client.StrandlineError) and not issubclass(kind, client.BrokerError):
            yield kind.__name__, _bases(kind), _yes(kind.retriable), first_sentence(kind.__doc__)


def _spark() -> Iterator[tuple[str, ...]]:
    for kind in _classes(spark):
        if issubclass(kind, Exception):
            yield kind.__name__, _bases(kind), first_sentence(kind.__doc__)


def _classes(module: ModuleType) -> Iterator[type]:
    """The public classes that the module declares, in its order."""
    for name, value in vars(module).items():
        is_public = isinstance(value, type) and not name.startswith("_")
        if is_public and value.__module__ == module.__name__:
            yield value


def _bases(kind: type) -> str:
    return ", ".join(f"`{base.__name__}`" for base in kind.__bases__)


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
