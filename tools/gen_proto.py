"""Generate the committed Python code and stubs from proto/strandline_proto/v1/*.proto.

`--check` generates into a temporary folder instead and fails if the committed files differ.
"""

import argparse
import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = Path("strandline_proto/v1")


def generate(out: Path) -> None:
    files = sorted(str(p.relative_to(PROTO)) for p in (PROTO / PACKAGE).glob("*.proto"))
    outputs = [f"--{kind}_out={out}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    plugins = [
        f"--plugin=protoc-gen-{kind}={Path(sys.executable).parent}/protoc-gen-{kind}"
        for kind in ("mypy", "mypy_grpc")
    ]
    status = protoc.main(["protoc", f"-I{PROTO}", *plugins, *outputs, *files])
    if status != 0:
        raise SystemExit(f"protoc failed with exit status {status}")
    for path in (out / PACKAGE).glob("*_pb2_grpc.py*"):
        if not path.name.startswith("services_"):
            path.unlink()  # only services.proto declares a service


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        generate(PROTO)
        return
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = sorted(p.name for p in (Path(folder) / PACKAGE).iterdir())
        committed = sorted(p.name for p in (PROTO / PACKAGE).glob("*_pb2*"))
        _, changed, missing = filecmp.cmpfiles(
            Path(folder) / PACKAGE, PROTO / PACKAGE, fresh, shallow=False
        )
        stale = sorted({*changed, *missing, *(set(committed) - set(fresh))})
        if stale:
            raise SystemExit(f"stale generated code: {', '.join(stale)}; run `make proto`")


if __name__ == "__main__":
    main()
