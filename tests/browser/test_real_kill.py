"""The board of a real cluster in a real browser: it follows a kill, and remembers the time before.

The issue's bound is a second. How soon depends on the machine: the figure is printed, not judged;
`strandline bench console --only kill` measures it.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from signal import SIGKILL
from typing import TYPE_CHECKING

import pytest

from strandline_bench.console.kill import chip_of, follow_kill
from support.command import strandline

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_bench.console.browser import Browser
    from support.cluster import MakeCluster

pytestmark = [pytest.mark.browser, pytest.mark.integration]
BROKER = 2
CELL = f'[data-partition="t:0"] [data-broker="{BROKER}"]'


def test_the_board_follows_a_kill(
    browser: Browser, make_cluster: MakeCluster, record_property: Callable[[str, object], None]
) -> None:
    cluster = make_cluster(brokers=2, up=False)
    where = "--dir", str(cluster.directory)
    up = strandline(
        *("up", *where, "--detach", "--console", "--console-port", "0", "--format", "json")
    )
    address = up.json["console"]["address"]
    made = strandline("topic", "create", "t", "--partitions", "1", *where)
    assert made.status == 0, made
    browser.open(f"{address}#/board")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'yes'", CELL)
    before_ms = int(time.time() * 1000)
    kill = partial(cluster.process(BROKER).send, SIGKILL)
    taken_ms = follow_kill(browser, address, BROKER, kill)
    record_property("kill to board", taken_ms)
    sys.stdout.write(f"the board showed the kill after {taken_ms:.0f} ms\n")
    assert taken_ms > 0
    browser.wait_text("body", "is not watched")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)
    browser.open(f"{address}#/board?at={before_ms}")
    browser.wait_text(chip_of(BROKER), "running")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'yes'", CELL)
    browser.open("about:blank")
    assert strandline("down", *where).status == 0
