"""I-100: an overtaken heartbeat has no effect.

Numbers order the heartbeats of one incarnation over all its streams. The numbers that the
controller counts never fall. Each committed list of offline replicas is of a heartbeat no older
than the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.hosts.controller.controller import Controller


class _Heartbeats:
    """Heartbeats of one incarnation."""

    def __init__(self, first: Heartbeat, broker: Broker) -> None:
        self.last = first
        self.named = {first.number: first.offline_replicas}
        """Offline replicas by heartbeat, from the last decided one on."""
        self.decided = broker.offline_replicas


class HeartbeatOracle:
    def __init__(self) -> None:
        self._told: dict[int, _Heartbeats] = {}

    def on_step(self, controller: Controller) -> None:
        for number, broker in controller.state.brokers.items():
            heartbeat = controller.told.get(number)
            if heartbeat is not None and heartbeat.broker_epoch == broker.epoch:
                self._on_broker(self._on_heartbeat(heartbeat, broker), broker)

    def on_restored(self) -> None:
        """The store has been restored: earlier decisions continue from a copy."""
        self._told.clear()

    def _on_heartbeat(self, heartbeat: Heartbeat, broker: Broker) -> _Heartbeats:
        told = self._told.get(broker.broker_id)
        if told is None or told.last.broker_epoch != heartbeat.broker_epoch:
            told = self._told[broker.broker_id] = _Heartbeats(heartbeat, broker)
        elif told.last is not heartbeat:
            if heartbeat.number < told.last.number:
                raise Violation(
                    "I-100",
                    f"heartbeat {heartbeat.number} of broker {broker.broker_id} counts, and came"
                    f" after {told.last.number}",
                )
            told.last = heartbeat
            told.named[heartbeat.number] = heartbeat.offline_replicas
        return told

    def _on_broker(self, told: _Heartbeats, broker: Broker) -> None:
        if broker.offline_replicas == told.decided:
            return
        told.decided = broker.offline_replicas
        by = [n for n, named in told.named.items() if named == told.decided]
        if not by:
            raise Violation(
                "I-100",
                f"broker {broker.broker_id} has the offline replicas {set(told.decided)} by a"
                f" heartbeat that {min(told.named)} had overtaken",
            )
        told.named = {n: named for n, named in told.named.items() if n >= min(by)}
