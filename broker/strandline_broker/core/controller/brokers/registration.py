"""Registration of a broker's incarnations.

A new incarnation gets a larger epoch, and leaves every ISR in the batch that registers it (I-51).
Its clean-shutdown marker, or a disk that is always flushed, may prove that it lost nothing. Without
such a proof it leaves every ELR too, and the leader epochs of these partitions rise. A leader
without this news then cannot count it again (P-73).
"""

from dataclasses import dataclass
from typing import Final

from strandline_broker.core.addresses import host_problem, port_problem
from strandline_broker.core.compatibility import UNNAMED, Server, check_fit, levels_of
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import RegisterBrokerRecord
from strandline_broker.core.controller.log.state import Broker, ControllerState
from strandline_broker.core.controller.partitions.election import leave_all
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_broker.core.registration import Registration
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRequest,
    StaleBrokerEpoch,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, ControllerEpoch, MetadataOffset

FLUSH_POLICIES: Final = ("replicated", "always")
TEXT_LENGTH_MAX: Final = 4096
"""Length limit of each text in a registration: every broker receives it, and it stays in
the log.
"""
ENTRIES_MAX: Final = 1000
"""Length limit of each list in a registration."""


@dataclass(frozen=True, slots=True)
class StoreMismatch:
    """A broker has applied a controller record that our log lacks (P-76): this controller must not
    run.
    """

    why: str


def check_memory(
    state: ControllerState,
    *,
    ours: str,
    broker_id: BrokerId,
    store_id: str,
    controller_epoch: ControllerEpoch,
    metadata_offset: MetadataOffset,
) -> StoreMismatch | None:
    """Check that the last record a broker applied is in this log, with the same controller epoch
    (I-92).

    A log restored from an old copy, or created again, would assign epochs, offsets and producer ids
    a second time.
    """
    if store_id == "" or metadata_offset < 0:
        return None
    if store_id != ours:
        return StoreMismatch(
            f"broker {broker_id} has applied records of the controller store {store_id}, and "
            f"this is {ours}: "
            "the controller's data directory was replaced; start it with the original one, or, if "
            "that is lost, run `strandline controller restore`"
        )
    found = state.epoch_at(metadata_offset)
    if found == controller_epoch or state.has_forgotten(metadata_offset, controller_epoch):
        return None
    here = (
        f"this log ends at {state.last_offset}" if found is None else f"here it is of epoch {found}"
    )
    return StoreMismatch(
        f"broker {broker_id} has applied record {metadata_offset} of controller epoch "
        f"{controller_epoch}, and {here}: "
        "the controller's data directory is an older copy; start it with the newest one, or, if "
        "that is lost, run `strandline controller restore`"
    )


def check_broker_epoch(
    state: ControllerState, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> Broker:
    """The broker, if the request comes from its registered incarnation (I-32).

    Epochs only grow (I-92). One above the registered one was assigned by another store, of which
    ours may be an old copy. The broker must not end because of it. When it registers again, its
    stored state shows which side is wrong (P-76).
    """
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"broker {broker_id} is not registered")
    if broker_epoch > broker.epoch:
        raise BrokerIdNotRegistered(
            f"broker {broker_id} speaks for epoch {broker_epoch}, which this controller has never"
            f" given out: registered is {broker.epoch}"
        )
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(
            f"broker {broker_id} speaks for epoch {broker_epoch}, registered is {broker.epoch}"
        )
    return broker


def is_unclean(old: Broker, new: Registration) -> bool:
    """True if the end of the old incarnation may have lost data (I-51).

    A disk that is always flushed needs no marker to prove the opposite, but only if it cannot be a
    copy. At another address, the same directory id may belong to a machine that was started twice.
    The copy then lacks the records that its twin has written since (P-71).
    """
    if new.directory_id != old.directory_id:
        return True
    always = old.flush_policy == new.flush_policy == "always"
    proven = always and new.listeners == old.listeners
    return new.previous_broker_epoch != old.epoch and not proven


def decide_registration(
    state: ControllerState,
    sessions: Sessions,
    request: Registration,
    *,
    cluster_id: str,
    store_id: str,
    now_ms: int,
    here: Server = UNNAMED,
) -> Decision[BrokerEpoch | StoreMismatch]:
    check_fit(here, _server(request))
    if not _is_untouched(state):
        _check_request(request, cluster_id)
    _check_left_behind(state, request)
    mismatch = check_memory(
        state,
        ours=store_id,
        broker_id=request.broker_id,
        store_id=request.store_id,
        controller_epoch=request.controller_epoch,
        metadata_offset=request.metadata_offset,
    )
    if mismatch is not None:
        return Decision((), answer=mismatch)
    _check_request(request, cluster_id)
    old = state.brokers.get(request.broker_id)
    if old is not None and old.incarnation_id == request.incarnation_id:
        return Decision((), answer=old.epoch)
    changes = []
    if old is not None:
        _check_duplicate(sessions, old, request, now_ms=now_ms)
        # Only brokers in the committed registry are elected, so the new incarnation cannot lead in
        # this batch.
        others = {b: broker for b, broker in state.brokers.items() if b != request.broker_id}
        changes = leave_all(state, request.broker_id, others, lost=is_unclean(old, request))
        changes += completions(state, changes, others)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        directory_id=request.directory_id,
        flush_policy=request.flush_policy,
        pid=request.pid,
        version=request.version,
        listeners=request.listeners,
        inter_broker_listener=request.inter_broker_listener,
        rack=request.rack,
        features=request.features,
        log_dirs=request.log_dirs,
        replicas_max=request.replicas_max,
    )
    epoch = BrokerEpoch(state.next_offset + len(changes))
    return Decision((*changes, record), answer=epoch)


def check_registered(broker: Broker | None, here: Server) -> None:
    """Raise UnsupportedVersion for a broker that registered with a controller of another build and
    is incompatible with this one. It may not serve here.
    """
    if broker is not None:
        check_fit(here, _server(broker))


def check_running(state: ControllerState, here: Server) -> None:
    """Raise UnsupportedVersion if any broker that serves at the moment is incompatible: such a
    controller must not take over.
    """
    for _, broker in sorted(state.brokers.items()):
        if not broker.fenced:
            check_registered(broker, here)


def _server(broker: Broker | Registration) -> Server:
    return Server(f"broker {broker.broker_id}", broker.version, levels_of(broker.features))


def _is_untouched(state: ControllerState) -> bool:
    """True if no broker has ever registered here. A broker with stored state then knows the cluster
    better than this store, whose cluster id may be a minute old.
    """
    return not state.brokers and not state.topics and not state.former_stores


def _check_left_behind(state: ControllerState, request: Registration) -> None:
    """Refuse a broker that the restoration of this store did not know. It may hold greater epochs
    than the restoration has raised (P-76). The broker is refused, not the controller.
    """
    if request.store_id in state.former_stores:
        raise InconsistentClusterId(
            f"broker {request.broker_id} obeyed the controller store {request.store_id}, in whose "
            "place this one was restored without the broker: run `strandline controller restore` "
            "again with the data directories of all brokers, or move this broker's away to rejoin "
            "it empty"
        )


def _check_request(request: Registration, cluster_id: str) -> None:
    if request.cluster_id not in ("", cluster_id):
        raise InconsistentClusterId(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this "
            f"controller to {cluster_id}: "
            "give the broker the controller or the data directory of its own cluster"
        )
    if request.broker_id < 0 or request.replicas_max < 0:
        raise InvalidRequest(
            f"broker id {request.broker_id} or its replicas_max {request.replicas_max} is negative"
        )
    _check_sizes(request)
    if request.incarnation_id == "" or request.directory_id == "":
        raise InvalidRequest(f"broker {request.broker_id} names no incarnation or no directory")
    if request.flush_policy not in FLUSH_POLICIES:
        raise InvalidRequest(
            f"broker {request.broker_id} has flush.policy {request.flush_policy!r}, known are "
            "replicated and always"
        )
    names = [endpoint.listener for endpoint in request.listeners]
    if request.inter_broker_listener not in names or len(set(names)) != len(names):
        raise InvalidRequest(
            f"broker {request.broker_id} names {request.inter_broker_listener!r} as the listener "
            "between brokers, "
            f"its listeners are {names}"
        )
    for endpoint in request.listeners:
        problem = host_problem(endpoint.host) or port_problem(endpoint.port)
        if problem is not None:
            raise InvalidRequest(
                f"broker {request.broker_id} cannot be reached at its listener "
                f"{endpoint.listener}: {problem}; correct advertised.listeners"
            )


def _check_sizes(request: Registration) -> None:
    listeners = request.listeners
    lists = {
        "listeners": [text for e in listeners for text in (e.listener, e.host)],
        "features": request.features,
        "log.dirs": request.log_dirs,
        "texts": (
            request.incarnation_id,
            request.directory_id,
            request.version,
            request.rack,
            request.inter_broker_listener,
        ),
    }
    for name, texts in lists.items():
        if len(texts) > ENTRIES_MAX or any(len(text) > TEXT_LENGTH_MAX for text in texts):
            raise InvalidRequest(
                f"broker {request.broker_id} registers with {len(texts)} {name}, the longest of "
                f"{max(map(len, texts))} characters; possible are {ENTRIES_MAX} of "
                f"{TEXT_LENGTH_MAX}"
            )


def _check_duplicate(
    sessions: Sessions, old: Broker, request: Registration, *, now_ms: int
) -> None:
    """Refuse a second process under a living broker's id (P-71), but never a proven successor
    (P-81).
    """
    is_before = _is_of_before(old, request)
    if old.in_controlled_shutdown or (old.directory_id == request.directory_id and not is_before):
        return  # the old process is stopping, or its lock proves it dead
    if sessions.is_alive(request.broker_id, now_ms):
        of = "an older copy of its data directory" if is_before else "another data directory"
        raise DuplicateBrokerRegistration(
            f"broker id {request.broker_id} is in use by a live process (pid {old.pid}, epoch "
            f"{old.epoch}), and this one has {of}: "
            "give this broker its own node.id, or stop the other one"
        )


def _is_of_before(old: Broker, request: Registration) -> bool:
    """True if the sender's directory lacks a record of the registered incarnation. The request is
    then a late one of a process that died before that incarnation began. Or it comes from an older
    copy of the directory (P-71).
    """
    has_applied_itself = not old.fenced or old.fencing_offset > old.epoch
    return has_applied_itself and request.metadata_offset < old.epoch
