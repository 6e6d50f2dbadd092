"""The idle share of the event loop's thread: of the last minute, from its CPU time."""

from prometheus_client import CollectorRegistry

from strandline_broker.hosts.common.loop_idle import STEP_S, WINDOW_S, LoopIdle

HANDLER = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
NETWORK = "kafka_network_socketserver_networkprocessoravgidle_percent"


def shown(idle: LoopIdle) -> tuple[float | None, float | None]:
    registry = CollectorRegistry()
    registry.register(idle)
    return registry.get_sample_value(HANDLER), registry.get_sample_value(NETWORK)


def test_the_share_is_the_time_without_cpu_under_both_names() -> None:
    idle = LoopIdle()
    assert shown(idle) == (None, None)
    idle.note(100.0, 7.0)
    assert shown(idle) == (None, None), "one sample tells nothing"
    idle.note(110.0, 9.5)
    assert shown(idle) == (0.75, 0.75)


def test_a_busy_minute_is_forgotten_after_a_minute() -> None:
    idle = LoopIdle()
    for second in range(61):
        idle.note(float(second), float(second))
    assert idle.share() == 0.0
    for second in range(61, 61 + int(WINDOW_S)):
        idle.note(float(second), 60.0)
    assert idle.share() == 1.0


def test_samples_are_few_and_the_share_stays_between_0_and_1() -> None:
    idle = LoopIdle()
    for step in range(10_000):
        idle.note(step / 20, step / 19)
    assert len(idle._samples) <= WINDOW_S / STEP_S + 2
    assert idle.share() == 0.0
