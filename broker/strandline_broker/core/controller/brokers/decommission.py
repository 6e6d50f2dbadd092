"""Removal of a broker from the cluster: it gets no new replicas, and is forgotten at the end.

In between reassignments move its replicas. The mark belongs to the broker, not to a process: it
outlasts restarts, until it is undone or the broker is unregistered.
"""

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    AnyRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from strandline_broker.core.controller.log.state import Broker, ControllerState
from strandline_proto.errors import BrokerIdNotRegistered, PolicyViolation
from strandline_proto.ids import BrokerId


def decide_decommission(
    state: ControllerState, broker_id: BrokerId, *, undo: bool
) -> Decision[None]:
    """Mark the broker, or with `undo` remove the mark; a repetition changes nothing."""
    broker = _registered(state, broker_id)
    if broker.decommissioning == (not undo):
        return Decision((), answer=None)
    mark = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, decommissioning=not undo
    )
    return Decision((mark,), answer=None)


def decide_unregister(state: ControllerState, broker_id: BrokerId) -> Decision[None]:
    """Forget a broker that hosts nothing and does not run, with its own altered configuration."""
    broker = _registered(state, broker_id)
    hosted = list(state.hosted_by(broker_id))
    if hosted:
        some = ", ".join(f"{state.topics[p.topic_id].name}:{p.index}" for p in hosted[:3])
        raise PolicyViolation(
            f"broker {broker_id} hosts {len(hosted)} replicas ({some}{', ...' * (len(hosted) > 3)})"
            ": move them to other brokers first"
        )
    if not broker.fenced:
        raise PolicyViolation(
            f"broker {broker_id} is running (pid {broker.pid}): shut it down first, it would "
            "register again"
        )
    records: list[AnyRecord] = [
        BrokerConfigRecord(broker_id=broker_id, key=key)
        for key in state.broker_configs.get(broker_id, {})
    ]
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
    return Decision(records, answer=None)


def _registered(state: ControllerState, broker_id: BrokerId) -> Broker:
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(
            f"no broker {broker_id} is registered, brokers {sorted(state.brokers)} are"
        )
    return broker
