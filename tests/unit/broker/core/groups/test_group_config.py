"""The configuration of single groups."""

import pytest

from strandline_broker.core.groups.group_config import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    check_group_configs,
    group_value,
)
from strandline_broker.core.groups.settings import GroupSettings
from strandline_proto.errors import InvalidConfig
from support.groups_rig import GroupsRig

SETTINGS = GroupSettings()


def test_a_groups_own_value_counts_within_the_brokers_bounds() -> None:
    assert group_value(SESSION_TIMEOUT, SETTINGS, {}) == 45_000
    assert (
        group_value(SESSION_TIMEOUT, SETTINGS, {"consumer.session.timeout.ms": "50000"}) == 50_000
    )
    assert group_value(SESSION_TIMEOUT, SETTINGS, {"consumer.session.timeout.ms": "1"}) == 45_000
    assert (
        group_value(HEARTBEAT_INTERVAL, SETTINGS, {"consumer.heartbeat.interval.ms": "99999"})
        == 15_000
    )


def test_members_are_told_their_groups_interval() -> None:
    rig = GroupsRig(group_configs={"g": {"consumer.heartbeat.interval.ms": "7000"}})
    assert rig.join("m").heartbeat_interval_ms == 7000
    assert rig.join("m", group_id="h").heartbeat_interval_ms == 5000


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"consumer.session.timeout": "1"}, r"did you mean consumer\.session\.timeout\.ms"),
        ({"consumer.session.timeout.ms": "44999"}, "from 45000 to 60000"),
        ({"consumer.session.timeout.ms": "x"}, "expected milliseconds"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "from 5000 to 15000"),
    ],
)
def test_what_is_not_a_groups_or_out_of_bounds_is_refused(
    entries: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidConfig, match=says):
        check_group_configs(entries, SETTINGS)


def test_a_session_outlasts_its_heartbeats() -> None:
    settings = GroupSettings(consumer_min_session_timeout_ms=5000)
    check_group_configs({"consumer.session.timeout.ms": "5001"}, settings)
    with pytest.raises(InvalidConfig, match="lost between two heartbeats"):
        check_group_configs({"consumer.session.timeout.ms": "5000"}, settings)
