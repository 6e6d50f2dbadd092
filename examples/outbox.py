"""An outbox: changes of a database reach a topic, though no transaction spans both.

    python outbox.py place tea coffee        # into the database: the order and its message, at once
    python outbox.py relay --once            # from the database to the topic

An order and its message are written in one transaction of the database. The relay sends the
messages in their order, and deletes those that are acknowledged. If it dies between the two, it
sends some again. Each message has its number in the header `outbox-id`: a reader skips what it has
seen. Run one relay.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing

from strandline import Producer
from strandline.errors import StrandlineError

BOOTSTRAP = os.environ.get("STRANDLINE_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "orders"
BATCH = 500
PAUSE_S = 0.5

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again, though rows are deleted
    key BLOB NOT NULL,
    value BLOB NOT NULL
);
"""


def opened(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    return database


def place(database: sqlite3.Connection, item: str) -> int:
    """Both rows are there, or none."""
    with database:
        order = database.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
        assert order is not None
        value = json.dumps({"order": order, "item": item}).encode()
        database.execute("INSERT INTO outbox (key, value) VALUES (?, ?)", (b"%d" % order, value))
    return order


async def relay(database: sqlite3.Connection, producer: Producer) -> int:
    """Sends one batch of messages, and returns their number."""
    rows = database.execute("SELECT id, key, value FROM outbox ORDER BY id LIMIT ?", (BATCH,))
    sent = []
    for number, key, value in rows.fetchall():
        headers = (("outbox-id", b"%d" % number),)
        sent.append((number, await producer.send(TOPIC, value, key=key, headers=headers)))
    for number, acknowledged in sent:
        await acknowledged
        with database:
            database.execute("DELETE FROM outbox WHERE id = ?", (number,))
    return len(sent)


async def run(database: sqlite3.Connection, *, once: bool) -> None:
    async with Producer(BOOTSTRAP) as producer:
        while True:
            count = await relay(database, producer)
            if count:
                print(f"sent {count}", flush=True)
            elif once:
                return
            else:
                await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", default="shop.sqlite")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("place").add_argument("items", nargs="+")
    commands.add_parser("relay").add_argument("--once", action="store_true", help="end when empty")
    chosen = parser.parse_args()
    with closing(opened(chosen.database)) as shop:
        if chosen.command == "place":
            for each in chosen.items:
                print(f"order {place(shop, each)}: {each}")
        else:
            try:
                asyncio.run(run(shop, once=chosen.once))
            except StrandlineError as error:
                sys.exit(f"error: {error}")
            except KeyboardInterrupt:
                pass
