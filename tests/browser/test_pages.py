"""The console's pages in a browser, against frames that are made by hand."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from strandline_bench.console.browser import KEYS, Browser
from strandline_console.answers import (
    BatchHeader,
    FaultChoice,
    FaultLab,
    FaultTarget,
    Meta,
    Payload,
    RecordHeader,
    RecordRow,
    Records,
)
from strandline_console.messages import Ghost, Waiter
from support import console_scenes as scenes
from support.scripted_console import ScriptedConsole

pytestmark = pytest.mark.browser

T0 = 1_780_000_000_000
CELL = '[data-partition="orders:2"] [data-broker="3"]'
META = Meta(
    messages_version=1,
    build="test",
    run="script",
    bootstrap="127.0.0.1:9091",
    read_only=False,
    read_only_reason=None,
    has_tables=True,
    kept_ms=900_000,
)


@pytest.fixture
def console() -> Iterator[ScriptedConsole]:
    script = ScriptedConsole(scenes.cluster(T0, {"orders": 6, "payments": 3}), T0)
    script.answers["/api/meta"] = asdict(META)
    with script:
        yield script


def opened(browser: Browser, console: ScriptedConsole, route: str) -> None:
    browser.open(f"{console.address}/#/{route}")
    browser.wait("document.querySelector('main')?.innerText.length > 20")


def killed(console: ScriptedConsole) -> None:
    """Broker 3 is killed after five seconds, and fenced two seconds later."""
    scenes.kill(console.state, 3, T0 + 5000)
    console.change(T0 + 5000, scenes.event("server", "The console lost broker 3.", broker=3))
    console.change(T0 + 7000, *scenes.fence(console.state, 3, T0 + 7000))


def test_the_board_follows_a_kill(browser: Browser, console: ScriptedConsole) -> None:
    opened(browser, console, "board")
    browser.wait("document.querySelector(arguments[0])?.dataset.role === 'leader'", CELL)
    assert browser.texts('[data-tile="Under-replicated"]') == ["0"]
    killed(console)
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)
    assert browser.texts('[data-tile="Under-replicated"]') == ["9"]
    assert browser.js("return document.querySelector(arguments[0]).dataset.role", CELL) == (
        "follower"
    )
    browser.wait_text('[data-testid="broker-3"]', "fenced")
    browser.click(CELL)
    browser.wait_text('[data-testid="why"]', "because the controller has fenced it")
    assert browser.complaints() == []


def test_a_value_of_a_lost_server_is_hatched(browser: Browser, console: ScriptedConsole) -> None:
    opened(browser, console, "partition/orders:2")
    end = '[data-testid="lane-3"] [data-offset="end"]'
    browser.wait_text(end, "1,274")
    assert browser.js("return document.querySelector(arguments[0] + ' .unknown')", end) is None
    killed(console)
    browser.wait("document.querySelector(arguments[0] + ' .unknown .stale')", end)
    browser.wait_text(".note", "Broker 3 (127.0.0.1:9093) is not watched")


def test_without_a_controller_the_counts_are_hatched(
    browser: Browser, console: ScriptedConsole
) -> None:
    opened(browser, console, "board")
    browser.wait_text('[data-tile="Partitions"]', "9")
    console.state.servers["controller"].state = "absent"
    for name in ("partitions", "under_replicated", "below_minimum", "offline"):
        setattr(console.state.summary, name, None)
    console.change(T0 + 1000)
    for tile in ("Partitions", "Under-replicated", "Below minimum", "Offline"):
        browser.wait("document.querySelector(arguments[0])", f'[data-tile="{tile}"] .unknown')


def test_the_scrubber_shows_the_state_before_the_kill(
    browser: Browser, console: ScriptedConsole
) -> None:
    console.change(T0 + 3000)
    killed(console)
    console.change(T0 + 9000)
    opened(browser, console, "board")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)
    for _ in range(5):
        browser.press('[role="slider"]', "ArrowLeft")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'yes'", CELL)
    browser.wait_text('[data-testid="broker-3"]', "running")
    link = browser.js("return location.href")
    assert link.endswith(f"at={T0 + 4000}")
    browser.open(link)
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'yes'", CELL)
    browser.js("document.querySelector('[aria-label=\"One change forth\"]').click()")
    browser.wait_text('[data-testid="broker-3"]', "not reached")
    browser.js("document.querySelector('[aria-label=\"One change forth\"]').click()")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)
    browser.type("body", "l")
    browser.wait("!location.hash.includes('at=')")
    browser.wait_text('[data-testid="instant"]', "live")


def test_play_runs_on_from_an_instant(browser: Browser, console: ScriptedConsole) -> None:
    console.change(T0 + 4900)
    killed(console)
    opened(browser, console, f"board?at={T0 + 4950}")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'yes'", CELL)
    browser.type("body", "k")
    browser.wait("document.querySelector(arguments[0])?.dataset.sync === 'no'", CELL)


def test_a_truncated_end_stays_as_a_ghost(browser: Browser, console: ScriptedConsole) -> None:
    opened(browser, console, "partition/orders:2")
    browser.wait("document.querySelector('[data-testid=\"lane-3\"]')")
    assert browser.texts('[data-testid="ghost"]') == []
    replica = console.state.replicas["orders:2@2"]
    replica.ghosts = [
        scenes.ghost(T0, start=1270, end=1274, epoch=3, acknowledged=False),
        scenes.ghost(T0 + 500, start=1268, end=1270, epoch=2, acknowledged=True),
        unknown_ghost(),
    ]
    console.change(T0 + 1000)
    browser.wait("document.querySelectorAll('[data-testid=\"ghost\"]').length === 3")
    first, second, third = browser.texts('[data-testid="lane-2"] [data-testid="ghost-line"]')
    assert first.startswith("Offsets 1,270 to 1,273 cut off at")
    assert "diverged" in first
    assert first.endswith("Was acknowledged: no")
    assert second.endswith("Was acknowledged: yes")
    assert third.startswith("Offset 1,266 cut off")
    assert browser.js(
        "return document.querySelectorAll('[data-testid=ghost-line]')[2].querySelector('.unknown')"
    )


def unknown_ghost() -> Ghost:
    return scenes.ghost(T0 + 700, start=1266, end=1267, epoch=2, acknowledged=None)


def test_each_waiter_stands_with_its_offset(browser: Browser, console: ScriptedConsole) -> None:
    replica = console.state.replicas["orders:2@3"]
    replica.waiters = [Waiter(kind="produce", offset=1273, count=2)]
    replica.waiters_count = 2
    console.change(T0 + 1000)
    opened(browser, console, "partition/orders:2")
    browser.wait_text('[data-testid="waiters"]', "2 callers wait for the watermark to reach 1,273")


def test_hostile_text_stays_text(browser: Browser, console: ScriptedConsole) -> None:
    hostile = "<img src=x onerror=\"document.body.dataset.hit='1'\"><script>alert(1)</script>"
    console.state.groups[hostile] = scenes.group(hostile, console.state, "orders")
    console.change(T0 + 1000, scenes.event("rebalance", hostile, group=hostile))
    value = Payload(size=len(hostile), text=hostile, json=False, hex="3c", truncated=False)
    binary = Payload(size=10_485_760, text=None, json=False, hex="00ff" * 2048, truncated=True)
    rows = [
        RecordRow(
            offset=0,
            timestamp_ms=None,
            batch=0,
            key=value,
            value=binary,
            headers=[RecordHeader(name=hostile, value=value)],
        )
    ]
    console.answers["/api/records"] = asdict(
        Records(
            topic="orders",
            partition=0,
            log_start=0,
            high_watermark=1,
            first_offset=0,
            next_offset=1,
            batches=[batch()],
            records=rows,
        )
    )
    for route in ("groups", "timeline", "board", "records/orders:0?offset=0"):
        opened(browser, console, route)
        assert browser.js("return document.querySelectorAll('#app img, #app script').length") == 0
    browser.click("[aria-expanded]")
    browser.wait_text(".payload", "000000  00 ff 00 ff")
    browser.wait_text(".opened", "10 MiB")
    assert browser.js("return document.body.dataset.hit") is None
    assert browser.complaints() == []


def batch() -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        last_offset=0,
        leader_epoch=3,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        codec="none",
        timestamp_type="create",
        control=False,
        transactional=False,
        size=90,
        records=1,
    )


def test_ten_thousand_partitions_are_paged(browser: Browser) -> None:
    state = scenes.cluster(T0, {})
    for number in range(10_000):
        state.partitions[f"wide:{number}"] = scenes.partition("wide", number, number % 3 + 1)
    scenes.summarize(state)
    script = ScriptedConsole(state, T0)
    script.answers["/api/meta"] = asdict(META)
    with script:
        opened(browser, script, "board")
        browser.wait_text('[data-testid="board-total"]', "10,000 partitions")
        browser.wait("document.querySelector('[data-partition=\"wide:0\"]')")
        assert browser.js("return document.querySelectorAll('*').length") < 5000
        browser.js("const m = document.querySelector('.matrix'); m.scrollTop = m.scrollHeight")
        browser.wait("document.querySelector('[data-partition=\"wide:9999\"]')")
        assert browser.js("return document.querySelectorAll('*').length") < 5000


def test_the_board_is_walked_with_arrows(browser: Browser, console: ScriptedConsole) -> None:
    opened(browser, console, "board")
    browser.wait("document.querySelector(arguments[0])", CELL)
    browser.type(".matrix", KEYS["right"] + KEYS["right"])
    browser.wait_text('[data-testid="why"]', "Broker 2 is in the ISR of orders:0")
    browser.type(".matrix", KEYS["enter"])
    browser.wait("location.hash.startsWith('#/partition/orders:0')")
    browser.type("body", "?")
    browser.wait_text("dialog", "back to live")


def test_a_fault_is_sent_with_the_token(browser: Browser, console: ScriptedConsole) -> None:
    choices = [
        FaultChoice(kind="kill", available=True),
        FaultChoice(kind="cut_off", available=False, reason="It needs root."),
    ]
    lab = FaultLab(
        available=True,
        reason=None,
        targets=[FaultTarget(id="broker-2", alive=True, choices=choices)],
        duration_s_max=60,
        workload_topic="checked",
    )
    console.answers["/api/faults"] = asdict(lab)
    opened(browser, console, "faults")
    kill = '[data-target="broker-2"] [data-fault="kill"]'
    assert browser.wait("document.querySelector(arguments[0])?.disabled", kill)
    browser.type('input[type="password"]', "the-token")
    browser.wait("document.querySelector(arguments[0]).disabled === false", kill)
    browser.wait_text(".reasons", "Cut off: It needs root.")
    browser.click(kill)
    browser.wait_text(".said", "Kill broker-2 for 15 s")
    (path, authorization, body) = console.posts[0]
    assert (path, authorization) == ("/api/faults", "Bearer the-token")
    assert body == {"kind": "kill", "target": "broker-2", "duration_s": 15}


def test_a_lab_that_is_not_there_says_why(browser: Browser, console: ScriptedConsole) -> None:
    why = "This cluster was not made by strandline up on this machine."
    lab = FaultLab(
        available=False, reason=why, targets=[], duration_s_max=60, workload_topic="checked"
    )
    console.answers["/api/faults"] = asdict(lab)
    opened(browser, console, "faults")
    browser.wait_text("main", why)
    assert browser.texts("[data-fault]") == []


def test_themes_and_reduced_motion(browser: Browser, console: ScriptedConsole) -> None:
    browser.prefer(prefers_color_scheme="dark", prefers_reduced_motion="reduce")
    opened(browser, console, "board")
    ground = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.js(ground)
    browser.click('[aria-label="Light theme"]')
    light = browser.js(ground)
    assert dark != light
    opened(browser, console, "board")
    assert browser.js(ground) == light
    browser.js("localStorage.clear()")
    moving = "return document.getAnimations().length"
    assert browser.js(moving) == 0


def test_ten_thousand_partitions_of_a_group_are_paged(
    browser: Browser, console: ScriptedConsole
) -> None:
    wide = scenes.group("wide", console.state, "orders")
    assert wide.members is not None
    wide.members[0].assigned = [f"wide:{number}" for number in range(10_000)]
    wide.members[0].target = wide.members[0].assigned
    console.state.groups = {"wide": wide}
    console.change(T0 + 1000)
    opened(browser, console, "groups")
    pager = '[data-testid="pager-partitions"]'
    browser.wait_text(pager, "partitions 1 to 50 of 10,006")
    assert browser.js("return document.querySelectorAll('*').length") < 2000
    browser.click(f"{pager} [aria-label='Later partitions']")
    browser.wait_text(pager, "partitions 51 to 100 of 10,006")
    browser.type("main input[type=search]", "orders")
    browser.wait("document.querySelectorAll('.assign th.p').length === 6")
    browser.open(f"{console.address}/#/groups/wide?first=9999999")
    browser.wait_text(pager, "partitions 10,001 to 10,006 of 10,006")
    assert browser.complaints() == []


def test_no_key_is_lost_that_comes_before_the_page_has_moved(
    browser: Browser, console: ScriptedConsole
) -> None:
    """Each key comes once the page is drawn for the one before, and before it has acted on that."""
    for second in range(1, 61):
        console.change(T0 + 1000 * second)
    browser.open(f"{console.address}/#/timeline?at={T0 + 20_000}")
    browser.wait_text('[data-testid="selection"]', "last minute")
    browser.type("body", "[")
    browser.wait(f"location.hash.includes('from={T0 + 20_000}&to={T0 + 60_000}')")
    browser.js(
        """
        const slider = document.querySelector('[role="slider"]');
        return (async () => {
          for (let press = 0; press < 10; press++) {
            const key = { key: "ArrowRight", bubbles: true };
            slider.dispatchEvent(new KeyboardEvent("keydown", key));
            for (let turn = 0; turn < 10; turn++) await null;
          }
        })();
        """
    )
    browser.wait(f"location.hash.includes('at={T0 + 30_000}')")


def test_a_selection_is_made_with_the_keyboard(browser: Browser, console: ScriptedConsole) -> None:
    for second in range(1, 61):
        console.change(T0 + 1000 * second)
    browser.open(f"{console.address}/#/timeline?at={T0 + 20_000}")
    selection = '[data-testid="selection"]'
    browser.wait_text(selection, "last minute")
    browser.type("body", "[")
    browser.wait(f"location.hash.includes('from={T0 + 20_000}&to={T0 + 60_000}')")
    for _ in range(10):
        browser.press('[role="slider"]', "ArrowRight")
    browser.wait(f"location.hash.includes('at={T0 + 30_000}')")
    browser.type("body", "]")
    browser.wait(f"location.hash.includes('from={T0 + 20_000}&to={T0 + 30_000}')")
    browser.wait_text(selection, "10 s")
    link = browser.wait("document.querySelector('a[download]')?.getAttribute('href')")
    assert link == f"/api/trace?from={T0 + 20_000}&to={T0 + 30_000}"
    browser.press("body", "Escape")
    browser.wait("!location.hash.includes('from=')")
