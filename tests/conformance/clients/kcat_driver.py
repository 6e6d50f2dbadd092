"""Driver of kcat: each operation is one process or a few."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conformance.clients.loop import Headers, UnsupportedError, headers_of, record, serve, unpacked

TIMEOUT_S = 45.0
READ_BYTES = 4096
FORMAT = r"%p %o %T %K %S\n%k%s%h\n"
IDEMPOTENT = ("-X", "enable.idempotence=true", "-X", "acks=all")


class Driver:
    """A group's member is its name: kcat commits when it exits, and keeps no process between."""

    def __init__(self, bootstrap: str) -> None:
        self._command = ["kcat", "-b", bootstrap]
        self._members: dict[str, tuple[str, str]] = {}
        self._transactional: dict[str, str] = {}
        self._open: dict[str, subprocess.Popen[bytes]] = {}

    def version(self) -> dict[str, Any]:
        shown = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"^Version (\S+)", shown, re.MULTILINE)
        return {"version": "unknown" if found is None else found[1]}

    def create_topic(self, **_: Any) -> None:
        raise UnsupportedError("kcat creates no topics")

    def delete_topic(self, **_: Any) -> None:
        raise UnsupportedError("kcat deletes no topics")

    def delete_records(self, **_: Any) -> None:
        raise UnsupportedError("kcat deletes no records")

    def topics(self) -> dict[str, Any]:
        shown = self._run(["-L"]).decode()
        return {"topics": sorted(re.findall(r'^  topic "(.+?)" with', shown, re.MULTILINE))}

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        codec: str = "none",
        pace_ms: int = 0,
    ) -> dict[str, Any]:
        if pace_ms:
            self._stream(topic, records, pace_ms)
        else:
            with tempfile.TemporaryDirectory() as folder:
                for each in records:
                    self._send(topic, each, codec, Path(folder, "value"))
        return {"placed": None}

    def _send(self, topic: str, asked: dict[str, Any], codec: str, file: Path) -> None:
        """One process for each record: the options name its key and headers, a file its value.

        kcat skips an empty file, but no line with a key and nothing behind it.
        """
        value = unpacked(asked["value"]) or b""
        file.write_bytes(value)
        options = ["-P", "-t", topic, "-p", str(asked["partition"]), "-z", codec, *IDEMPOTENT]
        key = unpacked(asked["key"])
        if value and key is not None:
            options += ["-k", key.decode()]
        for name, content in headers_of(asked):
            options += ["-H", name if content is None else f"{name}={content.decode()}"]
        if not value:
            file.write_bytes((key or b"") + b"\t\n")
            options += ["-K", "\\t", "-l"]
        if asked["value"] is None:
            options.append("-Z")
        self._run([*options, str(file)])

    def _stream(self, topic: str, records: list[dict[str, Any]], pace_ms: int) -> None:
        """One process for each partition reads lines for as long as they come."""
        partitions = sorted({each["partition"] for each in records})
        pipe = subprocess.PIPE
        options = ["-P", "-t", topic, "-K", "\\t", *IDEMPOTENT]
        with tempfile.TemporaryFile() as complaints:
            running = {
                each: subprocess.Popen(
                    [*self._command, *options, "-p", str(each)],
                    stdin=pipe,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                )
                for each in partitions
            }
            try:
                for each in records:
                    line = b"\t".join(
                        [unpacked(each["key"]) or b"", unpacked(each["value"]) or b""]
                    )
                    stream = running[each["partition"]].stdin
                    assert stream is not None
                    stream.write(line + b"\n")
                    stream.flush()
                    time.sleep(pace_ms / 1000)
                for process in running.values():
                    assert process.stdin is not None
                    process.stdin.close()
                status = [process.wait(TIMEOUT_S) for process in running.values()]
            finally:
                for process in running.values():
                    process.kill()
                    process.wait()
            complaints.seek(0)
            said = complaints.read().decode(errors="replace")
        if any(status) or "Delivery failed" in said:
            raise RuntimeError(f"kcat ended with {status}: {said[-500:]}")

    def tx_open(self, name: str, transactional_id: str) -> None:
        """Keeps the id: a producer of kcat lives for one transaction."""
        self._transactional[name] = transactional_id

    def tx_send(self, name: str, topic: str, records: list[dict[str, Any]]) -> None:
        """Starts a process that commits at the end of its input, and aborts at an interrupt.

        kcat looks for a line once it has read READ_BYTES. It sends shorter lines at the end of the
        input, and ends without an abort if it is interrupted in a line.
        """
        identity = f"transactional.id={self._transactional[name]}"
        (partition,) = {each["partition"] for each in records}
        options = ["-P", "-t", topic, "-p", str(partition), "-K", "\\t", "-X", identity]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*self._command, *options], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT
        )
        assert process.stdin is not None
        for each in records:
            line = b"\t".join([unpacked(each["key"]) or b"", unpacked(each["value"]) or b""])
            process.stdin.write(line.ljust(READ_BYTES - 1) + b"\n")
        process.stdin.flush()
        self._open[name] = process

    def tx_offsets(self, **_: Any) -> None:
        raise UnsupportedError("kcat commits no offsets in a transaction")

    def tx_end(self, name: str, commit: bool) -> None:
        process = self._open.pop(name)
        if not commit:
            process.send_signal(signal.SIGINT)
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        done = b"successfully committed" if commit else b"Aborting transaction"
        if process.returncode != 0 or done not in said:
            shown = said.decode(errors="replace")
            raise RuntimeError(f"kcat ended with {process.returncode}: {shown[-500:]}")

    def tx_close(self, name: str) -> None:
        del self._transactional[name]

    def read(
        self, topic: str, partitions: list[int], timeout_s: float, committed: bool = True
    ) -> dict[str, Any]:
        """Every record from the start of each partition to its end as it is now."""
        isolation = f"isolation.level=read_{'committed' if committed else 'uncommitted'}"
        options = ["-o", "beginning", "-e", "-X", isolation, "-f", FORMAT]
        output = b"".join(
            self._run(["-C", "-t", topic, "-p", str(each), *options], timeout_s)
            for each in partitions
        )
        return {"records": _parsed(output)}

    def open(self, name: str, group: str, topic: str, protocol: str = "classic") -> None:
        if protocol != "classic":
            raise UnsupportedError(f"kcat's librdkafka has no group protocol {protocol}")
        self._members[name] = (group, topic)

    def poll(self, name: str, count: int, timeout_s: float) -> dict[str, Any]:
        group, topic = self._members[name]
        limit = ["-c", str(count)] if count else []
        options = ["-G", group, *limit, "-f", FORMAT, "-X", "auto.offset.reset=earliest"]
        output = self._run([*options, topic], timeout_s, ends=count != 0)
        return {"records": _parsed(output), "assigned": [], "events": []}

    def commit(self, name: str) -> None:
        """kcat committed when it exited."""

    def close(self, name: str) -> None:
        del self._members[name]

    def offsets_for_time(self, topic: str, partitions: list[int], at: int) -> dict[str, Any]:
        asked = [word for each in partitions for word in ("-t", f"{topic}:{each}:{at}")]
        shown = self._run(["-Q", *asked]).decode()
        found = re.findall(r"\[(\d+)\] offset (-?\d+)", shown)
        return {"offsets": {int(each): int(offset) for each, offset in found}}

    def _run(self, options: list[str], timeout_s: float = TIMEOUT_S, *, ends: bool = True) -> bytes:
        """What kcat prints. A process that need not end gets SIGTERM at the end of its time."""
        pipe = subprocess.PIPE
        process = subprocess.Popen([*self._command, *options], stdout=pipe, stderr=pipe)
        try:
            output, complaints = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            process.terminate() if not ends else process.kill()
            output, complaints = process.communicate(timeout=TIMEOUT_S)
            if ends:
                said = complaints.decode(errors="replace")
                raise TimeoutError(f"kcat did not end: {len(output)} bytes, {said}") from error
            return output
        if process.returncode != 0:
            said = complaints.decode(errors="replace")
            raise RuntimeError(f"kcat ended with {process.returncode}: {said[-500:]}")
        return output


def _parsed(output: bytes) -> list[dict[str, Any]]:
    records = []
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        partition, offset, timestamp, key_size, size = map(int, output[at:end].split())
        at = end + 1
        key = None if key_size < 0 else output[at : at + key_size]
        at += max(key_size, 0)
        value = None if size < 0 else output[at : at + size]
        at += max(size, 0)
        end = output.index(b"\n", at)
        records.append(record((partition, offset), timestamp, key, value, _headers(output[at:end])))
        at = end + 1
    return records


def _headers(shown: bytes) -> Headers:
    pairs = [each.partition(b"=") for each in shown.split(b",") if each]
    return [(name.decode(), None if value == b"NULL" else value) for name, _, value in pairs]


if __name__ == "__main__":
    asyncio.run(serve(Driver(sys.argv[1])))
