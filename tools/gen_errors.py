"""Write the classes of strandline.errors that stand for a broker's error codes from the one table
of codes, strandline_proto.errors.

`--check` writes nothing and fails if the committed file differs.
"""

import argparse
from pathlib import Path

from strandline_proto.errors import ERRORS

TARGET = Path(__file__).resolve().parent.parent / "client" / "strandline" / "errors.py"
HEAD = "# From here: made from strandline_proto.errors by `make proto`; change it there.\n"
TAIL = "# To here.\n"


def classes() -> str:
    """One class for each error that a client can be answered with, by its code."""
    return "".join(
        f'\n\nclass {kind.__name__}(wire.{kind.__name__}, BrokerError):\n    """{kind.__doc__}"""\n'
        for kind in ERRORS.values()
        if not kind.between_servers
    )


def document(committed: str) -> str:
    before, head, rest = committed.partition(HEAD)
    _, tail, after = rest.partition(TAIL)
    if not head or not tail:
        raise SystemExit(f"{TARGET.name} has no lines {HEAD.strip()!r} and {TAIL.strip()!r}")
    return f"{before}{head}{classes()}\n\n{tail}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    committed = TARGET.read_text("utf-8")
    fresh = document(committed)
    if not is_check:
        TARGET.write_text(fresh, "utf-8")
    elif fresh != committed:
        raise SystemExit("client/strandline/errors.py is stale: run `make proto`")


if __name__ == "__main__":
    main()
