"""Which brokers are alive, by when they were last heard (P-61, P-62, P-63).

Soft state: it is not in the log, and a controller that starts gives every registered broker a fresh
session (P-61). All times are milliseconds of a monotonic clock.

Silence counts only while the controller was listening. If its own loop stalled, the heartbeats of
that time lie unread in its sockets, so a sweep after a stall expires nobody and gives back the time
(P-62). Who was heard between the stall's end and that sweep has lost none: no session is longer
than a full one from now.
"""

from dataclasses import dataclass

from strandline_proto.ids import BrokerEpoch, BrokerId


@dataclass(slots=True)
class _Session:
    epoch: BrokerEpoch
    expires_ms: int
    heard_ms: int | None
    """None: inherited from before this controller started, and never heard from since."""


class Sessions:
    def __init__(self, session_ms: int) -> None:
        assert session_ms > 0, session_ms
        self.session_ms = session_ms
        self._sessions: dict[BrokerId, _Session] = {}
        self._numbers: dict[BrokerId, tuple[BrokerEpoch, int]] = {}
        """Of the last heartbeat, in the order of sending; they outlast a session."""
        self._swept_ms: int | None = None

    def inherit(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """A broker that was registered before this controller started (P-61)."""
        self._sessions[broker_id] = _Session(epoch, now_ms + self.session_ms, None)

    def on_registered(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """A new incarnation, heard from by its very request."""
        self._sessions[broker_id] = _Session(epoch, now_ms + self.session_ms, now_ms)

    def on_unfenced(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Who may serve has a session, though the one in which it asked for it ended meanwhile."""
        if broker_id not in self._sessions:
            self.inherit(broker_id, epoch, now_ms)

    def on_heard(
        self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int, *, number: int = 0
    ) -> None:
        """Heartbeat `number` of the registered incarnation `epoch` arrived."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch > epoch:
            return
        if not self.is_overtaken(broker_id, epoch, number):
            self._numbers[broker_id] = (epoch, number)
            self._sessions[broker_id] = _Session(epoch, now_ms + self.session_ms, now_ms)

    def is_overtaken(self, broker_id: BrokerId, epoch: BrokerEpoch, number: int) -> bool:
        """Whether a later heartbeat of this incarnation has arrived, on another stream (I-100).

        What an overtaken one says has been taken back since: that the broker lives, too.
        """
        known, last = self._numbers.get(broker_id, (epoch, number))
        return known == epoch and number < last

    def shorten(self, broker_id: BrokerId, epoch: BrokerEpoch, *, to_ms: int, now_ms: int) -> None:
        """A hint that the broker may be gone: it has `to_ms` left to be heard. Never lengthens
        (P-81).
        """
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.expires_ms = min(session.expires_ms, now_ms + to_ms)

    def forget(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """This incarnation is dead."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            del self._sessions[broker_id]

    def put_back(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """The fencing that forgot it could not be written: the session is over still."""
        self._sessions.setdefault(broker_id, _Session(epoch, now_ms, None))

    def is_alive(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Whether this controller has heard the broker itself, within its session (P-81)."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard_ms is not None and session.expires_ms > now_ms

    def is_expired(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and session.expires_ms <= now_ms

    def heard_ms(self, broker_id: BrokerId) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.heard_ms

    def on_sweep(self, now_ms: int) -> bool:
        """Begin a sweep. False: the controller itself stalled since the last one, so nobody may be
        expired now.
        """
        swept, self._swept_ms = self._swept_ms, now_ms
        if swept is None or now_ms - swept <= self.session_ms // 2:
            return True
        for session in self._sessions.values():
            given_back_ms = session.expires_ms + now_ms - swept
            session.expires_ms = min(given_back_ms, now_ms + self.session_ms)
        return False

    def oldest_expired(self, now_ms: int) -> tuple[BrokerId, BrokerEpoch] | None:
        """The broker whose session ended first, to be fenced in a batch of its own (P-63)."""
        expired = [
            (s.expires_ms, broker_id, s.epoch)
            for broker_id, s in self._sessions.items()
            if s.expires_ms <= now_ms
        ]
        if not expired:
            return None
        _, broker_id, epoch = min(expired)
        return broker_id, epoch
