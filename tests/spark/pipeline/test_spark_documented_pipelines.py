"""The pipelines of docs/reference/pipelines.md: silver, state and gold are those of plain loops."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pytest

from strandline_spark.examples import text_of
from strandline_spark.gold.verify import verify_step
from strandline_spark.pipeline.verify import verify_parsed
from support.pipelines import of_file, rows_of, run_pipeline_once
from support.spark_batches import MadeBatch, MadeRecord, build

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker
    from support.spark_batches import Headers

pytestmark = pytest.mark.spark

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
BERLIN: Final = ZoneInfo("Europe/Berlin")


class Ran:
    """A pipeline that ships, after a run over some records of each topic."""

    def __init__(self, spark: SparkSession, broker: FakeBroker, folder: Path, name: str) -> None:
        self.pipeline: Pipeline = of_file(text_of(name), folder)
        self._spark = spark
        self._broker = broker
        self._topics = {topic: broker.create(topic, 2) for topic in self.pipeline.topics}
        self.quarantined = 0

    def put(
        self,
        where: tuple[str, int],
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        at: datetime = NOON,
    ) -> None:
        """Appends a record to topic and partition, a day after the time: none is ahead."""
        record = MadeRecord(key, value, headers or [], ms(at + timedelta(days=1)))
        topic, partition = where
        self._topics[topic].partitions[partition].append_bytes(build(MadeBatch([record]))[0])

    def run(self, *, close: bool = True) -> None:
        reports = run_pipeline_once(self._spark, self.pipeline, self._broker.address, close=close)
        self.quarantined += sum(one.quarantined for one in reports)

    def gold(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        (table,) = (s.table for p in self.pipeline.parts for s in p.gold if s.name == name)
        return rows_of(table, "window_start", "window_end", *columns)

    def check(self) -> None:
        found = verify_parsed(self.pipeline, values=True)
        assert all(one.sound for one in found), found
        for part in self.pipeline.parts:
            for step in part.gold:
                one = verify_step(self._spark, step, part.silver, pipeline=self.pipeline.name)
                assert one.sound, one


def by_text(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def test_debezium_keeps_the_rows_that_the_table_has(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    ran, orders = Ran(spark, broker, tmp_path, "debezium"), "shop.public.orders"
    chance = random.Random(7)
    held: dict[int, tuple[str, Decimal]] = {}
    changes: dict[tuple[datetime, str], list[Decimal]] = defaultdict(list)
    for n in range(120):
        number, at = chance.randrange(20), NOON + timedelta(seconds=7 * n)
        key = json.dumps({"id": number}).encode()
        amount = Decimal(chance.randrange(10_000)) / 100
        if number in held and chance.random() < 0.3:
            op, after = "d", None
        else:
            op = "u" if number in held else "r" if n < 5 else "c"
            after = {"id": number, "customer": "ä", "status": "new", "amount": str(amount)}
        event = {
            "before": {"id": number} if op in "ud" else None,
            "after": after,
            "source": {"ts_ms": ms(at), "lsn": n, "table": "orders"},
            "op": op,
            "ts_ms": ms(at) + 5,
        }
        ran.put((orders, number % 2), json.dumps(event).encode(), key=key)
        changes[at.replace(second=0), op] += [] if after is None else [amount]
        if after is None:
            ran.put((orders, number % 2), None, key=key)
            del held[number]
        else:
            held[number] = ("new", amount)
        if n == 60:
            ran.run(close=False)
    ran.put((orders, 0), b'{"op": 3}', key=b"{}")
    ran.run()
    assert ran.quarantined == 1
    (step,) = ran.pipeline.state
    found = rows_of(step.table, "order_id", "status", "amount")
    assert found == by_text((number, *row) for number, row in held.items())
    rows = ran.gold("changes_by_minute", "op", "amount")
    gold = {(start, op): amount for start, _, op, amount in rows}
    assert gold == {at: sum(own) if own else None for at, own in changes.items()}
    ran.check()


def test_cloudevents_of_both_modes_are_counted_by_type(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    ran = Ran(spark, broker, tmp_path, "cloudevents")
    counts: dict[tuple[datetime, str], list[str]] = defaultdict(list)
    data = {"order": 7, "lines": [{"sku": "a"}]}
    for n in range(80):
        at, kind = NOON + timedelta(minutes=3 * n), ("placed", "paid", "sent")[n % 3]
        source = f"/shop/{n % 4}"
        event = {"specversion": "1.0", "id": f"e{n}", "source": source, "type": kind}
        event |= {"time": at.isoformat(), "datacontenttype": "application/json"}
        structured = json.dumps(event | {"data": data}).encode()
        headers: Headers = [(f"ce_{name}", value.encode()) for name, value in event.items()]
        ran.put(("events", n % 2), structured, at=at)
        ran.put(("events-binary", n % 2), json.dumps(data).encode(), headers=headers, at=at)
        counts[at.replace(minute=0), kind].append(source)
    ran.put(("events", 0), b'{"id": "x", "source": "/"}')
    ran.put(("events-binary", 0), b"{}", headers=[("ce_id", b"x")])
    ran.run()
    assert ran.quarantined == 2
    expected = by_text(
        (at, at + HOUR, kind, len(own), len(set(own))) for (at, kind), own in counts.items()
    )
    for name in ("types_by_hour", "binary_types_by_hour"):
        assert ran.gold(name, "type", "events", "sources") == expected
    for part in ran.pipeline.parts:
        rows = rows_of(part.silver, "id", "data")
        assert [one for one, _ in rows] == sorted(f"e{n}" for n in range(80))
        assert {json.dumps(json.loads(text)) for _, text in rows} == {json.dumps(data)}
    ran.check()


def test_a_clickstream_has_pages_and_sessions(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    ran = Ran(spark, broker, tmp_path, "clickstream")
    chance = random.Random(3)
    views: list[tuple[datetime, str, str, str | None, int]] = []
    at = NOON
    for n in range(150):
        at += timedelta(seconds=chance.randrange(1, 900))
        user, url = f"u{chance.randrange(4)}", f"/{chance.choice('abc')}"
        referrer = chance.choice([None, "", "(direct)", "https://example.org/"])
        cart = [{"sku": "s", "price": "1.50"}] * chance.randrange(3)
        view: dict[str, Any] = {"ts": ms(at), "user": {"id": user, "agent": "x"}}
        view |= {"page": {"url": url, "title": " Title ", "referrer": referrer}}
        view |= {"experiments": {"blue": "1"}} | ({"shop": {"cart": cart}} if n % 2 else {})
        ran.put(("views", n % 2), json.dumps(view).encode(), key=user.encode(), at=at)
        is_referred = referrer not in (None, "", "(direct)")
        views.append((at, user, url, referrer if is_referred else None, len(cart) if n % 2 else 0))
    ran.put(("views", 0), b'{"ts": 1, "page": {"url": "/"}}')
    ran.run()
    assert ran.quarantined == 1
    pages = defaultdict(list)
    for seen, user, url, referrer, _ in views:
        pages[seen.replace(second=0, microsecond=0), url].append((user, referrer))
    assert ran.gold("pages_by_minute", "url", "views", "users", "referred") == by_text(
        (start, start + MINUTE, url, len(own), len({user for user, _ in own}), referred(own))
        for (start, url), own in pages.items()
    )
    sessions: list[list[Any]] = []
    for user in sorted({one[1] for one in views}):
        last = None
        for seen, _, url, _, size in (one for one in views if one[1] == user):
            if last is None or seen - last >= timedelta(minutes=30):
                sessions.append([seen, seen, user, 0, url, 0])
            last = seen
            sessions[-1][1], sessions[-1][3] = seen + timedelta(minutes=30), sessions[-1][3] + 1
            sessions[-1][5] = max(sessions[-1][5], size)
    columns = ("user", "views", "first_page", "cart_size")
    assert ran.gold("sessions", *columns) == by_text(tuple(one) for one in sessions)
    silver = rows_of(ran.pipeline.silver, "country", "title", "experiments")
    assert set(map(repr, silver)) == {repr(("unknown", "Title", [("blue", "1")]))}
    ran.check()


def referred(views: list[tuple[str, str | None]]) -> int:
    return sum(referrer is not None for _, referrer in views)


def test_syslog_is_counted_by_severity(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    ran = Ran(spark, broker, tmp_path, "syslog")
    lines = [
        "<34>1 2026-03-01T12:00:14.003Z mail su - ID47 - 'su root' failed",
        '<165>1 2026-03-01T12:00:59+00:00 db app 8710 - [x@1 a="b\\]"][y@1] two\nlines',
        "<165>1 2026-03-01T13:01:00+01:00 db app 8710 - [x@1]",
        "<13>1 2026-03-01T12:01:01Z - - - - - ",
        "<34>1 2026-03-01T12:00:20Z mail su - ID48 - again",
    ]
    for n, line in enumerate(lines):
        ran.put(("syslog", n % 2), line.encode())
    ran.put(("syslog", 0), b"<34>Oct 11 22:14:15 mail su: of another standard")
    ran.run()
    assert ran.quarantined == 1
    counts: dict[Any, int] = defaultdict(int)
    for line in lines:
        priority, time, host = re.findall(r"^<(\d+)>1 (\S+) (\S+)", line)[0]
        at = datetime.fromisoformat(time).astimezone(UTC).replace(second=0, microsecond=0)
        counts[at, None if host == "-" else host, int(priority) % 8] += 1
    assert ran.gold("severities_by_minute", "host", "severity", "messages") == by_text(
        (at, at + MINUTE, host, severity, n) for (at, host, severity), n in counts.items()
    )
    messages = {row[0] for row in rows_of(ran.pipeline.silver, "message")}
    assert messages == {"'su root' failed", "two\nlines", None, "", "again"}
    ran.check()


def test_exports_keep_the_latest_line_of_each_order_and_days_of_their_place(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path
) -> None:
    ran = Ran(spark, broker, tmp_path, "exports")
    chance = random.Random(5)
    held: dict[int, tuple[str, str, Decimal]] = {}
    days: dict[tuple[Any, str], list[Decimal]] = defaultdict(list)
    for day in range(4):  # on the third one the clocks of Berlin go forward
        exported = datetime(2026, 3, 27 + day, 23, 30, tzinfo=BERLIN)
        text = exported.strftime("%d.%m.%Y %H:%M:%S")
        lines = ["order_id;customer;amount;state;exported_at"] if day == 0 else []
        for number in range(30):
            amount = Decimal(chance.randrange(100_000)) / 100
            state = chance.choice(["", "n/a", "paid", "deleted"])
            lines.append(f'{number};" Müller; {number} ";{amount};{state};{text}')
            known = state if state in ("paid", "deleted") else "open"
            days[exported.date(), known].append(amount)
            held[number] = (f"Müller; {number}", known, amount)
            if known == "deleted":
                del held[number]
        assert len(list(csv.reader(lines, delimiter=";"))) == len(lines)
        for n, line in enumerate(lines):
            ran.put(("exports", n % 2), line.encode(), at=exported)
        if day == 1:
            ran.run(close=False)
    ran.run()
    assert ran.quarantined == 1
    (step,) = ran.pipeline.state
    found = rows_of(step.table, "order_id", "customer", "state", "amount")
    assert found == by_text((number, *row) for number, row in held.items())

    def midnight(day: Any) -> datetime:
        return datetime.combine(day, datetime.min.time(), BERLIN).astimezone(UTC)

    expected = by_text(
        (midnight(day), midnight(day + timedelta(days=1)), state, len(own), sum(own))
        for (day, state), own in days.items()
    )
    assert ran.gold("amounts_by_day", "state", "orders", "amount") == expected
    ran.check()
