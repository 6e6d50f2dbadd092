"""The command line of `strandline bench log`: the log alone, without broker, client or network."""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_bench.options import add_baseline, positive
from strandline_runtime.command_parser import CommandParser

PARTS: Final = ("append", "read", "recovery", "lookup", "compaction")
RECORDS: Final = 5_000_000
RECOVERY_GB: Final = 1.0


@dataclass(frozen=True, slots=True)
class LogOptions:
    only: tuple[str, ...]
    rounds: int
    round_bytes: int
    recovery_gb: float
    partitions: int
    segments: int
    records: int
    live_share: float
    directory: Path
    as_json: bool
    measure: str = "log"

    def configuration(self) -> dict[str, object]:
        """The options that a reader needs to repeat the run."""
        return {
            "only": ",".join(self.only),
            "rounds": self.rounds,
            "round_mb": self.round_bytes / 1e6,
            "recovery_gb": self.recovery_gb,
            "partitions": self.partitions,
            "segments": self.segments,
            "records": self.records,
            "live_share": self.live_share,
            "directory": str(self.directory),
        }


def parse(argv: Sequence[str]) -> LogOptions:
    """The options. Exits with status 2 on a mistake."""
    parser = _parser()
    given = parser.parse_args(argv)
    only = tuple(part.strip() for part in given.only.split(","))
    unknown = [part for part in only if part not in PARTS]
    if unknown:
        parser.error(f"--only {unknown[0]!r} is none of {', '.join(PARTS)}")
    if not 0 < given.live_share <= 1:
        parser.error(f"--live-share {given.live_share} is no share between 0 and 1")
    if not 0.01 <= given.recovery_gb <= 1000:
        parser.error(f"--recovery-gb {given.recovery_gb} is not between 0.01 and 1000")
    if not given.dir.is_dir():
        parser.error(f"--dir {given.dir} is no directory")
    return LogOptions(
        only=tuple(part for part in PARTS if part in only),
        rounds=given.rounds,
        round_bytes=given.round_mb * 1_000_000,
        recovery_gb=given.recovery_gb,
        partitions=given.partitions,
        segments=given.segments,
        records=given.records,
        live_share=given.live_share,
        directory=given.dir,
        as_json=given.json or given.format == "json",
    )


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline bench log",
        description="Measures the log alone, in a temporary directory: appends and reads against"
        " the bare file functions, recovery, lookups, compaction.",
        example="strandline bench log",
    )
    add = parser.add_argument
    add(
        "--only",
        default=",".join(PARTS),
        metavar="PART,...",
        help=f"parts to measure: {', '.join(PARTS)}",
    )
    add("--rounds", type=positive, default=7, help="alternating rounds of append and read (7)")
    add(
        "--round-mb",
        type=positive,
        default=256,
        help="megabytes written or read in each round (256)",
    )
    add(
        "--recovery-gb",
        type=float,
        default=RECOVERY_GB,
        help=f"gigabytes of log to recover ({RECOVERY_GB:g})",
    )
    add(
        "--partitions",
        type=positive,
        default=1000,
        help="partitions that start after a stop (1000)",
    )
    add("--segments", type=positive, default=1000, help="segments of the log for lookups (1000)")
    add("--records", type=positive, default=RECORDS, help=f"records to compact ({RECORDS:_})")
    add("--live-share", type=float, default=0.1, help="distinct keys for each record (0.1)")
    add("--dir", type=Path, default=Path(tempfile.gettempdir()), help="folder for temporary files")
    add_baseline(parser)
    add("--format", choices=("table", "json"), default="table", help="output format (table)")
    add("--json", action="store_true", help="the same as --format json")
    return parser
