"""The metrics of a broker as a coordinator of transactions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from strandline_broker.core.transactions.transaction import TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

    from strandline_broker.core.coordination.decision import Record

OUTCOMES: Final = {
    TransactionState.COMPLETE_COMMIT: "commit",
    TransactionState.COMPLETE_ABORT: "abort",
}


class Counted(Protocol):
    """The part of a shard that the gauges need."""

    def shard_state(self) -> str: ...
    def states(self) -> Mapping[TransactionState, int]: ...


class TransactionMetrics:
    def __init__(
        self, registry: CollectorRegistry, shards: Callable[[], Collection[Counted]]
    ) -> None:
        from prometheus_client import Counter as Total
        from prometheus_client import Histogram

        self._shards = shards
        ended = Total(
            "strandline_transactions_ended",
            "Transactions whose markers are all written.",
            labelnames=["outcome"],
            registry=registry,
        )
        self._ended = {outcome: ended.labels(outcome=outcome) for outcome in OUTCOMES.values()}
        self._aborted = Total(
            "strandline_transactions_aborted_by_coordinator",
            "Transactions that the coordinator itself has aborted: past their timeout, or because"
            " another producer has taken their transactional id.",
            registry=registry,
        )
        self._load_seconds = Histogram(
            "strandline_transaction_shard_load_seconds",
            "How long it took to read the log of a shard of transactions.",
            registry=registry,
        )
        registry.register(self)

    def on_records(self, records: Sequence[Record]) -> None:
        """Counts records that a shard has appended to its log."""
        for record in records:
            if record.value is not None and record.value.state in OUTCOMES:
                self._ended[OUTCOMES[record.value.state]].inc()

    def aborted(self) -> None:
        """Counts an abort by the coordinator."""
        self._aborted.inc()

    def loaded(self, took_s: float) -> None:
        self._load_seconds.observe(took_s)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields the gauges, at each scrape of the registry."""
        from prometheus_client.core import GaugeMetricFamily

        states: Counter[TransactionState] = Counter()
        shards: Counter[str] = Counter()
        for shard in self._shards():
            shards[shard.shard_state()] += 1
            states.update(shard.states())
        by_state = GaugeMetricFamily(
            "strandline_transactional_ids",
            "Transactional ids that this broker coordinates.",
            labels=["state"],
        )
        for state, count in sorted(states.items()):
            by_state.add_metric([state.text], count)
        yield by_state
        in_state = GaugeMetricFamily(
            "strandline_transaction_shards",
            "Shards of transactions that were asked or loaded.",
            labels=["state"],
        )
        for name, number in sorted(shards.items()):
            in_state.add_metric([name], number)
        yield in_state
