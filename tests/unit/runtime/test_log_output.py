"""Log lines on their way out: nothing that takes them may hold up or fail whoever logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline_runtime.log_output import LogOutput, LogStream

DEADLINE_S = 60.0


def count_notice(dropped: int) -> str:
    return f"{dropped} dropped\n"


def output_to(descriptor: int, queue_bytes: int) -> LogOutput:
    made = LogOutput(descriptor, queue_bytes=queue_bytes)
    made.notice = count_notice
    return made


def read_all(reading: int, until: bytes) -> bytes:
    got = b""
    while not got.endswith(until):
        got += os.read(reading, 1 << 16)
    return got


def test_lines_are_written_in_their_order(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        output = output_to(file.fileno(), 1000)
        for number in range(50):
            output.put(f"line {number}\n")
        assert output.flush(DEADLINE_S)
    assert (tmp_path / "log").read_text().splitlines() == [f"line {n}" for n in range(50)]
    assert output.dropped == 0


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "not blocking"])
def test_a_pipe_that_nobody_reads_drops_lines_and_says_how_many_where_they_are_missing(
    blocking: bool,
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    output = output_to(writing, 1000)
    fills = "f" * (1 << 16) + "\n"
    output._room += len(fills)  # the first line alone is larger than the pipe
    output.put(fills)
    kept = [f"{number:09}\n" for number in range(200)]
    for line in kept:
        output.put(line)
    assert 90 <= output.dropped <= 200
    dropped = output.dropped
    assert not output.flush(0.01), "it waits no longer than that"
    said = read_all(reading, f"{dropped} dropped\n".encode()).decode()
    assert output.flush(DEADLINE_S)
    output.put("after\n")
    said += read_all(reading, b"after\n").decode()
    first_missing = 200 - dropped
    assert said == "".join([fills, *kept[:first_missing], f"{dropped} dropped\n", "after\n"])
    os.close(reading)
    os.close(writing)


def test_a_line_that_is_too_large_for_the_queue_is_dropped_alone(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        output = output_to(file.fileno(), 100)
        output.put("first\n")
        output.put("x" * 100 + "\ny\n")
        output.put("a traceback\nof two lines\n")
        assert output.flush(DEADLINE_S)
    said = (tmp_path / "log").read_text()
    assert said == "first\n2 dropped\na traceback\nof two lines\n"


@pytest.mark.parametrize("text", ["\ud800 half a character", "\udcff a byte of a file's name"])
def test_what_utf_8_cannot_say_is_said_with_escapes(tmp_path: Path, text: str) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        output = output_to(file.fileno(), 1000)
        output.put(text + "\n")
        assert output.flush(DEADLINE_S)
    assert (tmp_path / "log").read_text().startswith("\\ud")


def test_a_closed_pipe_and_a_closed_descriptor_fail_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    closed = output_to(writing, 100)
    gone = output_to(10_000, 100)
    for output in (closed, gone):
        for _ in range(50):
            output.put("nobody reads this\n")
        assert not output.flush(DEADLINE_S), "an error ends the wait at once"
        assert output.dropped == 50 - 100 // len("nobody reads this\n")
    # The thread of an output tries again for ever, and another file may get the closed number.
    with Path(os.devnull).open("wb") as null:
        for output in (closed, gone):
            output._descriptor = null.fileno()
            assert output.flush(DEADLINE_S)
    os.close(writing)


WRITE_UNTIL_FULL = """
import resource, signal, sys
from strandline_runtime.log_output import LogOutput
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (25, resource.RLIM_INFINITY))
file = open(sys.argv[1], "wb", buffering=0)
output = LogOutput(file.fileno(), queue_bytes=100)
output.notice = lambda dropped: f"{dropped} dropped\\n"
for number in range(20):
    output.put(f"line number {number:02}\\n")
assert not output.flush(60)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
output.put("room\\n")
assert output.flush(60)
"""


def test_a_disk_that_has_room_again_gets_whole_lines_and_the_count(tmp_path: Path) -> None:
    """A limit of the file's size stands for a full disk: the write fails half-way."""
    log = tmp_path / "log"
    subprocess.run([sys.executable, "-c", WRITE_UNTIL_FULL, log], check=True, timeout=DEADLINE_S)
    lines = log.read_text().splitlines()
    assert lines[:3] == ["line number 00", "line numbe", "line number 01"]
    count = next(line for line in lines if line.endswith("dropped"))
    whole = [line for line in lines if line.startswith("line number ")]
    assert lines[-1] == "room"
    assert len(whole) + int(count.split()[0]) == 20


def test_a_stream_makes_lines_of_what_is_printed_piece_by_piece(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        stream = LogStream(output_to(file.fileno(), 1000))
        print("two", "words", file=stream)
        stream.write("one\ntwo\nhalf")
        stream.write(" a line")
        stream.flush()
        assert stream.output.flush(DEADLINE_S)
    assert (tmp_path / "log").read_text() == "two words\none\ntwo\nhalf a line\n"


END = """
import sys
from strandline_runtime.log_output import end_process, take_over_stderr
take_over_stderr()
print("last words", file=sys.stderr)
if sys.argv[1] == "exit":
    end_process(7)
raise RuntimeError("why")
"""


@pytest.mark.parametrize(("how", "status"), [("exit", 7), ("exception", 1)])
def test_the_last_lines_are_written_before_the_end(how: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", END, how], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == status
    assert done.stderr.startswith("last words\n")
    assert ("RuntimeError: why" in done.stderr) == (how == "exception")


FILL_AND_END = """
import os, sys, threading
from strandline_runtime.log_output import end_process, take_over_stderr
take_over_stderr()
for _ in range(3):
    print("x" * (1 << 17), file=sys.stderr)
try:  # as C code does
    while True:
        os.write(2, b"x" * 4096)
except BlockingIOError:
    pass
threading.Thread(target=threading.Event().wait).start()
end_process(7)
"""


def test_the_end_waits_for_no_reader_and_no_thread() -> None:
    reading, writing = os.pipe()
    started = subprocess.Popen([sys.executable, "-c", FILL_AND_END], stderr=writing)
    try:
        assert started.wait(DEADLINE_S) == 7
    finally:
        started.kill()
        os.close(reading)
        os.close(writing)
