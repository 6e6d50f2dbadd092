"""A person is forgotten in a pipeline with silver, gold and state, by the commands of its user: no
table and no file keeps a record of theirs, and the job goes on.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from strandline_spark.commands.main import main
from support.pipelines import of_file, rows_of, run_pipeline_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline_spark.pipeline.config import Pipeline
    from support.fake_broker_sync import FakeBroker

pytestmark = pytest.mark.spark

VISITS: Final = """
[pipeline]
name = "visits"
topics = ["t"]

[bronze]
max_offsets_per_trigger = 40

[silver]
format = "json"
event_time = "at"
max_ahead = "unlimited"
quarantine_limit = 10

[silver.columns]
person = "string"
page = "string"
spent = "bigint"
at = "timestamp"

[[gold]]
name = "per_minute"
window = "1 minute"
watermark = "30 seconds"
late = "update"
sql = '''
SELECT window_start, window_end, count(*) AS visits, max(page) AS page, sum(spent) AS spent
FROM silver GROUP BY ALL
'''

[[gold]]
name = "sessions"
session = "2 minutes"
session_key = ["person"]
watermark = "30 seconds"
sql = '''
SELECT window_start, window_end, person, count(*) AS visits FROM silver GROUP BY ALL
'''

[[state]]
name = "people"
key = ["person"]
order = ["event_time"]
delete_when = "page = 'bye'"

[[state]]
name = "records"
"""
PERSON: Final = "p-7"
SECRET: Final = "/secret/of/p-7"
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)


class Visit(NamedTuple):
    n: int
    person: str
    page: str

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(seconds=5 * self.n)


class Site:
    """Visits of ten people, the pipeline that reads them, and what its tables should hold."""

    def __init__(
        self, spark: SparkSession, broker: FakeBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._spark, self._broker = spark, broker
        self._topic = broker.create("t", 2)
        self._chance = random.Random(7)
        self.file = folder / "pipeline.toml"
        self.file.write_text(VISITS)
        self.pipeline: Pipeline = of_file(VISITS, folder)
        self.visits: list[Visit] = []
        session = "strandline_spark.spark.session"
        monkeypatch.setattr(f"{session}.start_session", lambda name, **settings: spark)
        monkeypatch.setattr(f"{session}.end_session", lambda ended: None)
        monkeypatch.chdir(folder)

    @property
    def tables(self) -> list[str]:
        return [path for _, path in self.pipeline.tables]

    def visit(self, people: list[str], numbers: range) -> None:
        for n in numbers:
            person = self._chance.choice(people)
            page = SECRET if person == PERSON else self._chance.choice(["/a", "/b", "bye"])
            visit = Visit(n, person, page)
            self.visits.append(visit)
            row = {"person": person, "page": page, "spent": n, "at": visit.at.isoformat()}
            self.put(person, json.dumps(row).encode())

    def put(self, person: str, value: bytes) -> None:
        partition = self._topic.partitions[int(person[2:]) % 2]
        partition.append([(person.encode(), value)])

    def run(self, *, close: bool = False) -> None:
        run_pipeline_once(self._spark, self.pipeline, self._broker.address, close=close)

    def forget(self, where: str) -> dict[str, Any]:
        (found,) = self.command("forget", str(self.file), "--where", where)["tables"]
        return dict(found)

    def verify(self) -> dict[str, Any]:
        cluster = ("--complete", "--bootstrap", self._broker.address)
        found = self.command("verify", str(self.file), "--values", *cluster)
        return found | self.command("verify", str(self.file), "--full", *cluster)

    def command(self, *words: str) -> dict[str, Any]:
        said: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("builtins.print", lambda *line, **_: said.append(str(line[0])))
            with pytest.raises(SystemExit) as ended:
                main([*words, "--format", "json"])
        assert ended.value.code == 0, said
        found: dict[str, Any] = json.loads(said[-1])
        return found

    def check(self, visits: list[Visit]) -> None:
        """By plain loops over the visits that are left. All windows are closed."""
        silver = rows_of(self.pipeline.silver, "spent", "person", "page")
        assert silver == sorted(((v.n, v.person, v.page) for v in visits), key=repr)
        minutes: dict[datetime, list[Visit]] = defaultdict(list)
        newest: dict[str, Visit] = {}
        for v in visits:
            minutes[v.at.replace(second=0)].append(v)
            newest[v.person] = v
        per_minute, sessions = self.pipeline.gold
        assert rows_of(per_minute.table, "window_start", "visits", "page", "spent") == sorted(
            (
                (start, len(own), max(v.page for v in own), sum(v.n for v in own))
                for start, own in minutes.items()
            ),
            key=repr,
        )
        counts = rows_of(sessions.table, "person", "visits")
        assert sum(many for _, many in counts) == len(visits)
        assert {person for person, _ in counts} == set(newest)
        people, records = self.pipeline.state
        there = {person: v.n for person, v in newest.items() if v.page != "bye"}
        assert dict(rows_of(people.table, "person", "spent")) == there
        assert dict(rows_of(records.table, "person", "spent")) == {
            person: v.n for person, v in newest.items()
        }

    def mentions(self) -> list[str]:
        """The data files, of any version, that have a record of the person."""
        found = []
        for table in self.tables:
            for file in Path(table).rglob("*"):
                if not file.is_file() or "_delta_log" in file.parts:
                    continue
                text = file.read_bytes()
                if file.suffix == ".parquet":
                    text += repr(pq.read_table(file, partitioning=None).to_pylist()).encode()
                if PERSON.encode() in text or SECRET.encode() in text:
                    found.append(str(file.relative_to(table)))
        return found

    def age(self) -> None:
        """Lets a day go by for files that are no longer part of a table."""
        ago = time.time() - 86_400
        for table in self.tables:
            for file in Path(table).rglob("*.parquet"):
                os.utime(file, (ago, ago))
            for entry in Path(table, "_delta_log").glob("*.json"):
                actions = [json.loads(line) for line in entry.read_text().splitlines()]
                for action in actions:
                    if "remove" in action:
                        action["remove"]["deletionTimestamp"] = int(ago * 1000)
                entry.write_text("".join(json.dumps(one) + "\n" for one in actions))


def test_a_person_is_in_no_table_and_no_file_and_the_job_goes_on(
    spark: SparkSession, broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(spark, broker, tmp_path, monkeypatch)
    everyone = [f"p-{n}" for n in range(10)]
    site.visit(everyone, range(60))
    site.put(PERSON, b'{"person": "p-7", "page": ["/secret/of/p-7"]')
    site.run()
    for table in (site.pipeline.bronze, site.pipeline.silver, site.pipeline.quarantine):
        site.command("compact", table)
    site.visit(everyone, range(60, 120))
    site.run(close=True)
    site.check(site.visits)
    assert len(site.mentions()) > 5

    of_them = [v for v in site.visits if v.person == PERSON]
    done = site.forget("CAST(key AS STRING) = 'p-7'")
    assert done["rows"] == {
        "bronze": len(of_them) + 1,
        "quarantine": 1,
        "silver": len(of_them),
    }
    assert done["begun_again"] == ["per_minute", "sessions", "people", "records"]
    assert site.mentions() == []
    site.visits = [v for v in site.visits if v.person != PERSON]
    site.run(close=True)
    site.check(site.visits)
    assert site.verify()["sound"]

    site.visit([one for one in everyone if one != PERSON], range(200, 240))
    site.run(close=True)
    site.age()
    for table in (site.pipeline.bronze, site.pipeline.silver, site.pipeline.quarantine):
        site.command("compact", table)
        site.command("vacuum", table, "--keep", "1h")
    site.check(site.visits)
    assert site.verify()["sound"]
    assert site.mentions() == []
