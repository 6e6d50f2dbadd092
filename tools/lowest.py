"""The requirements of this project at their lower bounds, one a line, for `make lowest`."""

import re
import sys
import tomllib
from pathlib import Path

BOUNDS = re.compile(r"(?P<name>[a-z0-9-]+)>=(?P<low>[0-9.]+),<[0-9.]+")
RUNS_TESTS = ("pytest", "pytest-asyncio", "pytest-xdist", "hypothesis")
"""Of the tools that developers need, those without which no test runs."""
RAISED = {"pyspark": "4.2"}
"""Where a part works with a lower version, of which `make sparks` tests that part alone."""


def lowest(pyproject: str) -> list[str]:
    """What `pyproject.toml` asks for at least: `name==version`."""
    document = tomllib.loads(pyproject)
    project = document["project"]
    extras = project["optional-dependencies"]
    tools = [each for each in extras["dev"] if each.partition(">=")[0] in RUNS_TESTS]
    wanted = [
        *document["build-system"]["requires"],
        *project["dependencies"],
        *extras["broker"],
        *extras["spark"],
        *extras["objects"],
        *tools,
    ]
    found = [BOUNDS.fullmatch(each) for each in wanted]
    missing = [each for each, bounds in zip(wanted, found, strict=True) if bounds is None]
    if missing:
        raise SystemExit(f"error: {missing[0]!r} has no bounds: write name>=LOW,<HIGH")
    return [
        f"{bounds['name']}=={RAISED.get(bounds['name'], bounds['low'])}"
        for bounds in found
        if bounds is not None
    ]


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
    sys.stdout.write("".join(f"{each}\n" for each in lowest(text)))
