"""`TOPIC` and `TOPIC:P,P`: topics and partitions as a command line names them."""

from collections.abc import Iterable

from strandline_cli.errors import UsageMistake


def parse_topics(texts: Iterable[str]) -> list[tuple[str, int | None]]:
    """(topic, partition); None stands for all of its partitions."""
    found: list[tuple[str, int | None]] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise UsageMistake(f"--topic {text!r} names no topic: use TOPIC or TOPIC:0,1")
        if not colon:
            found.append((topic, None))
            continue
        for number in numbers.split(","):
            if not (number.isascii() and number.isdecimal()):
                raise UsageMistake(
                    f"--topic {text!r}: {number!r} is not a partition: use TOPIC or TOPIC:0,1"
                )
            found.append((topic, int(number)))
    return found
