"""The clean-shutdown marker `.kafka_cleanshutdown`: proof that a broker flushed and closed every
log before it ended (I-52, P-22).

Kafka's format, one JSON object with the broker epoch that ended. The marker is written last. At a
start it is read and durably removed before anything else happens.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.atomic_file import remove_file, replace_file
from strandline_broker.storage.files.file import read_whole

if TYPE_CHECKING:
    from strandline_broker.storage.files.damage import Report
    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = ".kafka_cleanshutdown"
NO_EPOCH: Final = -1


def take_clean_shutdown(fs: FileSystem, directory: str, report: Report) -> int | None:
    """Remove the marker and return its broker epoch; None without a marker that parses."""
    path = f"{directory}/{FILE_NAME}"
    try:
        data = read_whole(fs, path)
    except FileNotFoundError:
        return None
    remove_file(fs, path)
    try:
        marker = json.loads(data)
        epoch = marker["brokerEpoch"]
        if marker["version"] != 0 or type(epoch) is not int or epoch < NO_EPOCH:
            raise ValueError("version 0 with a broker epoch is expected")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        report(f"{path} does not read ({error!r}); the shutdown counts as unclean.")
        return None
    return epoch


def write_clean_shutdown(fs: FileSystem, directory: str, broker_epoch: int) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(fs, f"{directory}/{FILE_NAME}", text.encode("ascii"))
