"""Sessions of the brokers, by the time of their last heartbeat (P-61, P-62, P-63).

This is soft state: it is not in the log, and a controller that starts gives every registered broker
a fresh session (P-61). All times are milliseconds of a monotonic clock.

Silence counts only while the controller was reading. If its own loop stalled, the heartbeats of
that time are unread in its sockets. A sweep after a stall therefore expires no broker and gives the
time back (P-62). A broker heard between the stall's end and that sweep has lost no time: no session
is longer than a full one from now.
"""

from dataclasses import dataclass

from strandline_proto.ids import BrokerEpoch, BrokerId


@dataclass(slots=True)
class _Session:
    epoch: BrokerEpoch
    expires_ms: int
    heard_ms: int | None
    """Time of the last heartbeat; None: the session is from before this controller started, without
    a heartbeat since.
    """


class Sessions:
    def __init__(self, session_ms: int) -> None:
        assert session_ms > 0, session_ms
        self.session_ms = session_ms
        self._sessions: dict[BrokerId, _Session] = {}
        self._numbers: dict[BrokerId, tuple[BrokerEpoch, int]] = {}
        """Number of the last heartbeat, in the order of sending; it outlasts a session."""
        self._swept_ms: int | None = None

    def inherit(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Begin a session for a broker that registered before this controller started (P-61)."""
        self._sessions[broker_id] = _Session(epoch, now_ms + self.session_ms, None)

    def on_registered(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Begin the session of a new incarnation; its request counts as a heartbeat."""
        self._sessions[broker_id] = _Session(epoch, now_ms + self.session_ms, now_ms)

    def on_unfenced(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Ensure that an unfenced broker has a session, even if the session of its request has
        ended meanwhile.
        """
        if broker_id not in self._sessions:
            self.inherit(broker_id, epoch, now_ms)

    def on_heard(
        self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int, *, number: int = 0
    ) -> None:
        """Record that heartbeat `number` of the registered incarnation `epoch` arrived."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch > epoch:
            return
        if not self.is_overtaken(broker_id, epoch, number):
            self._numbers[broker_id] = (epoch, number)
            self._sessions[broker_id] = _Session(epoch, now_ms + self.session_ms, now_ms)

    def is_overtaken(self, broker_id: BrokerId, epoch: BrokerEpoch, number: int) -> bool:
        """True if a later heartbeat of this incarnation has arrived, on another stream (I-100).

        The content of an overtaken heartbeat is outdated, including that the broker lives.
        """
        known, last = self._numbers.get(broker_id, (epoch, number))
        return known == epoch and number < last

    def shorten(self, broker_id: BrokerId, epoch: BrokerEpoch, *, to_ms: int, now_ms: int) -> None:
        """Leave the broker `to_ms` to send a heartbeat, after a hint that it may be gone. Never
        lengthens a session (P-81).
        """
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.expires_ms = min(session.expires_ms, now_ms + to_ms)

    def forget(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """End the session of an incarnation that is dead."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            del self._sessions[broker_id]

    def put_back(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Restore an ended session, because its fencing could not be written."""
        self._sessions.setdefault(broker_id, _Session(epoch, now_ms, None))

    def is_alive(self, broker_id: BrokerId, now_ms: int) -> bool:
        """True if this controller received a heartbeat of the broker within its session (P-81)."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard_ms is not None and session.expires_ms > now_ms

    def is_expired(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and session.expires_ms <= now_ms

    def heard_ms(self, broker_id: BrokerId) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.heard_ms

    def expires_ms(self, broker_id: BrokerId) -> int | None:
        """The time at which the session ends without another heartbeat; None without a session."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.expires_ms

    def on_sweep(self, now_ms: int) -> bool:
        """Begin a sweep. False: the controller itself stalled since the last one, so no broker may
        expire now.
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
