"""A selection of the recording as one HTML file, which replays without a server.

The file is the console's page with its scripts and styles inline. Its content security policy names
them by their hashes, so that nothing that stands in the recording can run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

from strandline_console.answers import Trace
from strandline_console.messages import MESSAGES_VERSION
from strandline_console.recording.scope import ALL
from strandline_console.serving.parameters import Refused
from strandline_runtime.build_id import build_id

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_console.messages import Delta
    from strandline_console.recording.recorder import Recorder

TRACE_BYTES_MAX: Final = 64 << 20
_STYLE: Final = re.compile(r'<link rel="stylesheet" href="([^"]+)">')
_SCRIPT: Final = re.compile(r'<script src="([^"]+)"[^>]*></script>')
_ICON: Final = re.compile(r'<link rel="icon"[^>]*>\n?')
_encode: Final = msgspec.json.Encoder().encode


def trace_between(recorder: Recorder, first_ms: int, last_ms: int, *, made_ms: int) -> Trace:
    """The recording between two instants. Raises Refused if it is empty or too large."""
    if last_ms < first_ms:
        raise Refused(400, f"the selection ends before it begins: {first_ms} to {last_ms}")
    keyframe = recorder.at(ALL, instant_ms=first_ms)
    if keyframe.instant.at_ms > last_ms:
        raise Refused(
            410, f"the selection is older than the recording: ask from {keyframe.instant.at_ms}"
        )
    deltas: list[Delta] = []
    size = len(_encode(keyframe))
    for delta in recorder.deltas_after(keyframe.instant.frame, ALL, until_ms=last_ms):
        size += len(_encode(delta))
        if size > TRACE_BYTES_MAX:
            raise Refused(
                413,
                f"the selection has more than {TRACE_BYTES_MAX >> 20} MiB, which a browser may not"
                f" open: it fits up to {deltas[-1].at_ms if deltas else first_ms}",
            )
        deltas.append(delta)
    return Trace(
        version=MESSAGES_VERSION,
        build=build_id(),
        made_ms=made_ms,
        from_ms=max(first_ms, keyframe.instant.at_ms),
        to_ms=min(last_ms, keyframe.instant.newest_ms),
        keyframe=keyframe,
        deltas=deltas,
        events=[event for delta in deltas for event in delta.events],
    )


def trace_file(trace: Trace, static: Path) -> bytes:
    """The HTML file. `static` has the page's files."""
    page = _ICON.sub("", (static / "index.html").read_text("utf-8"))
    style = "".join(_named(static, name) for name in _STYLE.findall(page))
    script = "".join(_named(static, name) for name in _SCRIPT.findall(page))
    # The HTML parser looks for these before the script's own syntax; strings mean the same so.
    script = re.sub(r"<(/script|!--)", r"\\x3c\1", script, flags=re.IGNORECASE)
    # No `<` of the recording may end the element: in JSON strings this is the same character.
    data = _encode(trace).decode().replace("<", "\\u003c").replace("&", "\\u0026")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    tail = (
        f'<script type="application/json" id="strandline-trace">{data}</script>\n'
        f"<script>{script}</script>\n"
    )
    page = _SCRIPT.sub("", _STYLE.sub("", page))
    before, _, rest = page.partition("</head>")
    middle, _, end = rest.rpartition("</body>")
    return f"{before}{head}</head>{middle}{tail}</body>{end}".encode()


def _named(static: Path, name: str) -> str:
    return (static / name.rpartition("/")[2]).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
