"""Which builds may serve one cluster together, and what is said of those that may not."""

import pytest

from strandline_broker.core.compatibility import (
    OURS,
    UNTOLD,
    Levels,
    Server,
    check_fit,
    levels_of,
)
from strandline_proto.errors import InvalidRequest, UnsupportedVersion


def fit(here: Levels, there: Levels) -> bool:
    try:
        check_fit(Server("here", "1", here), Server("there", "2", there))
    except UnsupportedVersion:
        return False
    return True


def test_two_fit_if_they_share_a_level() -> None:
    ranges = [Levels(low, high) for low in range(5) for high in range(low, 5)]
    for one in ranges:
        for other in ranges:
            shared = range(max(one.oldest, other.oldest), min(one.newest, other.newest) + 1)
            assert fit(one, other) == (len(shared) > 0), (one, other)


def test_this_build_fits_those_of_before_levels() -> None:
    assert levels_of(()) == levels_of(("something",)) == UNTOLD
    assert fit(OURS, UNTOLD)


def test_what_is_said_is_read_back_beside_other_features() -> None:
    assert OURS.features == ("protocol:0-1",)
    for levels in (OURS, Levels(3, 3), Levels(10, 999_999_999)):
        assert levels_of(("other:7", *levels.features, "else")) == levels


@pytest.mark.parametrize(
    "features",
    [
        ["protocol:"],
        ["protocol:1"],
        ["protocol:2-1"],
        ["protocol:-1-1"],
        ["protocol:0-1 "],
        ["protocol:0-\N{ARABIC-INDIC DIGIT ONE}"],
        ["protocol:0-1111111111"],
        ["protocol:0-1", "protocol:0-2"],
    ],
)
def test_a_range_that_makes_no_sense_is_refused(features: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="name no range of protocol levels"):
        levels_of(features)


def test_an_error_names_both_and_who_is_to_be_upgraded() -> None:
    new = Server("this controller", "0.3.0+bbb", Levels(2, 3))
    old = Server("broker 7", "", Levels(0, 1))
    expected = (
        "Upgrade broker 7 to a build that speaks protocol level 2, or run this controller with a"
        " build that speaks level 1 (docs/guide/upgrades.md)"
    )
    for here, there in ((new, old), (old, new)):
        with pytest.raises(UnsupportedVersion) as refused:
            check_fit(here, there)
        said = str(refused.value)
        assert "broker 7 runs build unknown and speaks protocol levels 0 to 1" in said
        assert "this controller runs build 0.3.0+bbb and speaks protocol levels 2 to 3" in said
        assert said.endswith(f"they share no level. {expected}")
