"""The record codec is loaded by one thread, whatever thread needs it first."""

from __future__ import annotations

import subprocess
import sys

THREADS = """
import sys, threading
from strandline_proto.batch import build_batch, raw_records, read_header
from strandline_proto.record_codec import load_record_codec

assert "aiokafka" not in sys.modules
sys.setswitchinterval(1e-6)
data = bytes.fromhex(sys.argv[1])
start, failures = threading.Barrier(8), []

def use(number):
    start.wait()
    try:
        if number % 2:
            list(raw_records(data, read_header(data)))
        else:
            build_batch([(None, b"v")], timestamp_ms=0)
    except ImportError as why:
        failures.append(why)

threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
for each in threads: each.start()
for each in threads: each.join()
assert not failures, failures
"""


def test_threads_that_need_the_codec_at_once_all_get_it() -> None:
    from strandline_proto.batch import build_batch

    data = build_batch([(b"k", b"v")], timestamp_ms=0)
    subprocess.run([sys.executable, "-c", THREADS, data.hex()], check=True, timeout=60)
