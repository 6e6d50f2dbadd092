"""Questions of a chaos run to the cluster that it breaks; no answer is an answer too."""

from typing import TYPE_CHECKING, Final, TypeVar

from strandline_chaos.faults.verdict import LossReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline.sync import Admin

_REQUEST_MS: Final = 3000
OFFSETS_TOPIC: Final = "__consumer_offsets"

T = TypeVar("T")


class Questions:
    """Asks with a short deadline, each time over new connections."""

    def __init__(self, bootstrap: str, topic: str, brokers: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._brokers = brokers

    def leader(self) -> int | None:
        """The leader of partition 0; None if there is none, or no answer."""
        leader = self._ask(
            lambda admin: admin.describe_topics([self._topic])[self._topic].partitions[0].leader
        )
        return None if leader is None or leader < 0 else leader

    def out_of_sync(self) -> str:
        """The first broker that is not in service, or replica that is not in sync; else empty."""
        found = self._ask(self._out_of_sync)
        return "no broker answers" if found is None else found

    def _out_of_sync(self, admin: "Admin") -> str:
        cluster = admin.describe_cluster()
        live = {broker.id for broker in cluster.brokers if broker.state == "UNFENCED"}
        if missing := sorted(set(range(1, self._brokers + 1)) - live):
            return f"broker {', '.join(map(str, missing))} is not in service"
        known = admin.describe_topics(include_internal=True)
        for topic in (known[name] for name in (self._topic, OFFSETS_TOPIC) if name in known):
            for partition in topic.partitions:
                if len(partition.isr) < len(partition.replicas) or partition.leader < 0:
                    return (
                        f"{topic.name}:{partition.partition} has leader {partition.leader} and"
                        f" in-sync replicas {sorted(partition.isr)}"
                    )
        return ""

    def losses(self) -> tuple[tuple[LossReport, ...], bool] | None:
        """The reported losses of the run's topic, and whether commits may be lost."""
        found = self._ask(lambda admin: admin.describe_cluster().losses)
        if found is None:
            return None
        reports = tuple(
            LossReport(loss.partition, loss.start, loss.end, loss.possibly_from)
            for loss in found
            if loss.topic == self._topic
        )
        return reports, any(loss.topic == OFFSETS_TOPIC for loss in found)

    def _ask(self, question: "Callable[[Admin], T]") -> T | None:
        from strandline.errors import StrandlineError
        from strandline.sync import Admin

        try:
            with Admin(
                self._bootstrap, request_timeout_ms=_REQUEST_MS, connect_timeout_ms=_REQUEST_MS
            ) as admin:
                return question(admin)
        except StrandlineError:
            return None
