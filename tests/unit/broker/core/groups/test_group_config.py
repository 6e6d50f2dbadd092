"""The configuration of single groups."""

from dataclasses import replace

import pytest

from strandline_broker.core.groups.group_config import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    check_group_configs,
    group_value,
    heartbeat_interval_ms,
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
    ("members", "own", "settings", "told_ms"),
    [
        (5_000, None, SETTINGS, 5_000),
        (5_001, None, SETTINGS, 15_000),
        (5_001, "7000", SETTINGS, 7_000),
        (5_001, None, GroupSettings(consumer_session_timeout_ms=30_000), 10_000),
        (5_001, None, GroupSettings(consumer_heartbeat_interval_ms=20_000), 20_000),
    ],
)
def test_many_members_are_told_to_speak_less_often(
    members: int, own: str | None, settings: GroupSettings, told_ms: int
) -> None:
    settings = replace(
        settings,
        consumer_min_session_timeout_ms=1_000,
        consumer_max_heartbeat_interval_ms=max(15_000, settings.consumer_heartbeat_interval_ms),
    )
    overrides = {} if own is None else {HEARTBEAT_INTERVAL.name: own}
    assert heartbeat_interval_ms(settings, overrides, members=members) == told_ms


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
