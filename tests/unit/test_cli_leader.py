"""How `strandline leader elect` understands what it is given."""

import pytest

from strandline_cli.commands.leader_elect import named
from strandline_cli.errors import UsageMistake


def test_a_topic_stands_alone_or_with_one_partition() -> None:
    assert named("orders") == "orders"
    assert named("orders:12") == ("orders", 12)


@pytest.mark.parametrize(
    "text", ["orders:", "orders:x", ":1", "orders:-1", "a:b:", "orders:\u0663"]
)
def test_anything_else_is_a_mistake_that_shows_the_form(text: str) -> None:
    with pytest.raises(UsageMistake, match="orders:0"):
        named(text)
