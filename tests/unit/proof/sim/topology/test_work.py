"""What clients are drawn to be like."""

from __future__ import annotations

from strandline_proof.sim.network.network import GIVEN_UP_LATE_S_MAX
from strandline_proof.sim.oracles.partition.expiry import CLOCK
from strandline_proof.sim.topology.work import Work, draw_work
from strandline_proof.sim.workload.clients import other_work


def test_a_producer_is_remembered_for_longer_than_its_batches_are_sent_again() -> None:
    """Or one that was appended, and whose answer was lost, is appended again."""
    drawn = [work for work in map(draw_work, range(500)) if work.expiry_ms > 0]
    assert drawn
    for work in (*drawn, *map(_beside, drawn)):
        last_s = work.delivery_ms / 1000 + GIVEN_UP_LATE_S_MAX
        assert last_s < work.expiry_ms / 1000 / CLOCK


def _beside(main: Work) -> Work:
    work = other_work(main)
    return Work(delivery_ms=work.delivery_ms, expiry_ms=main.expiry_ms)


def test_a_third_of_the_seeds_speaks_kafka_also_where_producers_are_forgotten() -> None:
    drawn = [draw_work(seed) for seed in range(1000)]
    assert 280 < sum(work.kafka for work in drawn) < 390
    assert sum(work.kafka and work.expiry_ms > 0 for work in drawn) > 20


def test_clients_of_other_topics_are_plain() -> None:
    assert other_work(Work(burst=20, delivery_ms=12_000)) == Work()
