"""A group member in a separate process, which the benchmark kills: BOOTSTRAP GROUP TOPIC."""

import asyncio
import sys

from strandline_bench.group.members import Member


async def main(bootstrap: str, group: str, topic: str) -> None:
    await Member(bootstrap, group, topic, asyncio.Event()).start()
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
