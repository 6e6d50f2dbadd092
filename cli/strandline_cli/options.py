"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[
    Format, typer.Option("--format", help="Output format: table for people, json for scripts.")
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,...",
        help="Addresses of brokers. Default: STRANDLINE_BOOTSTRAP, else the cluster in --dir.",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="A cluster by its name, see `strandline context add`. Default: STRANDLINE_CONTEXT.",
    ),
]
DirOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Directory of a local cluster. Default: STRANDLINE_DIR, else ./.strandline.",
    ),
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds until the command gives up.")
]
ThrottleOption = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        min=0,
        metavar="BYTES",
        help="Limit of bytes a second that each broker copies for moves; 0: none.",
    ),
]
DECOMPRESSED_BYTES_FLAG: Final = "--max-decompressed-bytes"
MaxDecompressedBytesOption = Annotated[
    int,
    typer.Option(
        DECOMPRESSED_BYTES_FLAG,
        min=1,
        max=DECOMPRESSED_BYTES_LIMIT,
        metavar="BYTES",
        help="Limit of the unpacked size of one compressed batch.",
    ),
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
