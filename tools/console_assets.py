"""Build the console's pages, console/web, into console/strandline_console/static, and record a hash
of their sources there.

The built files are committed, so that a wheel needs no node. `--check` needs none either: it fails
if the sources, or a built file, are not those of the last build, or if the files are too large.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

CONSOLE = Path(__file__).resolve().parents[1] / "console"
WEB = CONSOLE / "web"
STATIC = CONSOLE / "strandline_console" / "static"
RECORD = "build.json"
LIMIT_BYTES = 250_000
REMEDY = "run `make console`"


def digest(folder: Path, files: list[Path]) -> str:
    """SHA-256 over names and contents, in order of name."""
    found = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def sources(web: Path) -> list[Path]:
    """Every file that a build reads, the lock of its libraries included."""
    top = [web / name for name in ("build.mjs", "package-lock.json", "package.json")]
    return [*top, *(path for path in (web / "src").rglob("*") if path.is_file())]


def assets(static: Path) -> list[Path]:
    return [path for path in static.rglob("*") if path.is_file() and path.name != RECORD]


def record(web: Path, static: Path) -> dict[str, str]:
    return {"sources": digest(web, sources(web)), "assets": digest(static, assets(static))}


def faults(web: Path, static: Path) -> list[str]:
    """What is wrong with the built files, in sentences."""
    path = static / RECORD
    if not path.exists():
        return [f"{path} does not exist: {REMEDY}"]
    built, now = json.loads(path.read_text("utf-8")), record(web, static)
    found = []
    if built["sources"] != now["sources"]:
        found.append(f"the console's pages are older than their sources: {REMEDY}")
    if built["assets"] != now["assets"]:
        found.append(f"a file in {static} is not what was built: {REMEDY}")
    size = sum(one.stat().st_size for one in assets(static))
    if size >= LIMIT_BYTES:
        found.append(f"the console's pages have {size} bytes; the limit is {LIMIT_BYTES}")
    return found


def build() -> None:
    """Runs npm and node; the libraries are those of package-lock.json."""
    if shutil.which("npm") is None:
        raise SystemExit("the console's pages are built with node 20 and npm: install both")
    if not (WEB / "node_modules" / "esbuild").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=WEB, check=True)
    for script in ("types", "build"):
        subprocess.run(["npm", "run", "--silent", script], cwd=WEB, check=True)
    text = json.dumps(record(WEB, STATIC), indent=2) + "\n"
    (STATIC / RECORD).write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        build()
    elif found := faults(WEB, STATIC):
        raise SystemExit("; ".join(found))


if __name__ == "__main__":
    main()
