"""The groups of a shard as a whole."""

from collections.abc import Iterable

import pytest

from strandline_broker.core.groups.assignors.range import RangeAssignor
from strandline_broker.core.groups.groups import Groups
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import InvalidConfig


class NoMatcher:
    def check(self, regex: str) -> None:
        raise AssertionError(regex)

    def matching(self, regex: str, names: Iterable[str]) -> tuple[str, ...]:
        raise AssertionError((regex, *names))


def test_an_assignor_that_is_not_there_is_named_at_the_start() -> None:
    settings = GroupSettings(consumer_assignors=("range", "sticky"))
    with pytest.raises(InvalidConfig, match="'sticky', and there are range"):
        Groups(settings, [RangeAssignor()], NoMatcher())
