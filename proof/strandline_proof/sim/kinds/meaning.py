"""The effect of each kind of fault, in a sentence for the tables of proof/planted-bugs.md."""

from __future__ import annotations

from typing import Final

MEANING: Final[dict[str, str]] = {
    "kill": "SIGKILL; the process starts again after 0.05 to 3 s, about a session",
    "stop": "SIGTERM, and a start later",
    "pause": "SIGSTOP and SIGCONT, short or beyond the session",
    "stall": "the event loop stands still for 0.3 to 10 s, the threads go on",
    "power": "one machine, all brokers or all servers lose power: each dirty page of 4 KiB is kept,"
    " lost or torn at 512 bytes, and directory operations are undone from the newest back",
    "crash-point": "power goes right before the n-th disk operation from then on",
    "crash-loop": "two to five starts that each live for 0.02 to 0.4 s",
    "crash-at": "a process or its machine ends right before a named place (`kinds/places.py`): an"
    " append, a flush, a step of a checkpoint, of a truncation, of a deletion, of a start's"
    " recovery, of a cleaning, of the controller's store",
    "delay-at": "a thread stands still at such a place for 0.05 to 2 s while the others go on, or"
    " its outcome is known so much later",
    "lost-answer": "a reset takes the n-th answer to a named method, when the request is done",
    "twin": "another machine runs under a broker's id, on a copy of its disk or an empty one, and"
    " ends for good after 0.3 to 4 s",
    "second": "a second process on the directory of a broker or of the controller; the lock must"
    " keep it out",
    "partition": "messages between two nodes are dropped, or held and late, one way or both",
    "isolate": "one node is cut off from all others",
    "split": "the network splits: halves, a ring of majorities, a bridge, or the controller, the"
    " replicas or the clients cut off",
    "slow-link": "a link takes 20 to 500 ms more in each direction",
    "lossy-link": "a link loses packets, which TCP turns into delay",
    "flapping-link": "a link that comes and goes",
    "reset": "connections break in the middle of an answer",
    "half-open": "one end of a connection is gone, and the other does not know",
    "duplicate": "connections between two nodes break, and the first request of each call that"
    " follows arrives twice: the answer to the first is lost, or the copy is read late",
    "slow-disk": "each operation takes 10 to 300 times as long",
    "stalling-disk": "some operations take 20 or 300 ms more; in a quarter of these faults one"
    " hangs for 1.8 or 5 s",
    "fsync-error": "an fsync fails and calls its pages clean",
    "write-error": "EIO on writes",
    "short-write": "a part of the bytes is written",
    "read-error": "EIO on reads",
    "misread": "a read returns bytes of another place, or older ones; not while a log is opened, as"
    " they look like a torn tail there, and not of the compacted topic, where a later batch of the"
    " same size looks like the requested one",
    "disk-full": "a disk has no room, then room again",
    "bit-flip": "bits of a log, index or time index change, in a running broker or a stopped one;"
    " of a log only below the recovery point, in one replica at a time, while the ISR is full",
    "file-flip": "bits change in a file that is read at a start alone, while its process is down",
    "helix": "each replica loses another part of a log: no client may read a wrong record",
    "store-flip": "a bit of the controller's log changes: a start is refused until it is restored",
    "snapshot-flip": "a bit of a snapshot of the controller changes: the next start reads another",
    "zero-tail": "zeros stand behind the end of a log",
    "wipe": "a broker gets an empty disk under the same id",
    "store-restored": "the controller's directory is put back as it was 0.5 to 4 s ago; the first"
    " broker that the controller meets must end it, and `controller restore` follows",
    "clock-jump": "the wall clock jumps",
    "clock-rate": "both clocks go faster or slower",
    "clock-strobe": "the wall clock jumps there and back, quickly",
    "clock-freeze": "the wall clock stands still",
    "topic-recreate": "a topic under load is deleted and created again under its name",
    "min-insync": "a topic has another min.insync.replicas for a while",
    "delete-records": "records are deleted by command, some or all",
    "retention": "a topic has a lower retention.bytes for a while, checked every 0.6 s",
    "compaction": "a compacted topic of few keys and small segments, cleaned every 0.5 s; later"
    " ones alter its configuration or take `compact` away",
    "unclean": "unclean elections are allowed for a while",
    "elect-preferred": "an administrator elects preferred leaders",
    "move-leader": "a leader is moved",
    "add-partitions": "the topic gets more partitions",
    "reassign": "a partition moves to other brokers",
    "reassign-cancel": "a reassignment is cancelled under way",
    "reassign-override": "a reassignment gets another target under way",
    "reassign-few": "a partition moves to fewer brokers than its minimum requires, and to more"
    " again 0.1 to 2.5 s later; added brokers may die on the way",
    "resend": "a batch of the log is sent again: it is recognized or refused, never appended twice",
    "hostile-batch": "a batch with a right checksum has records that contradict it, or times out of"
    " bounds: it is never acknowledged",
    "member-crash": "a member of a group is killed, and comes back",
    "member-leave": "a member leaves in order, and comes back",
    "member-pause": "a member stands still for 0.3 to 3 s, below or beyond its session",
    "member-busy": "an application does not poll, and the library goes on",
    "member-cut": "a member does not reach its coordinator",
    "group-empty": "all members go, in order or killed, and come back together",
    "coordinator-move": "another replica is made the group's coordinator",
    "coordinator-reassign": "the coordinator's partition moves to other brokers",
    "offsets-flip": "bits of a log of `__consumer_offsets` change, as by `bit-flip`",
    "teller-crash": "a transactional producer is killed, and comes back",
    "teller-pause": "a transactional producer stands still, below or beyond its timeout",
    "teller-cut": "a transactional producer does not reach a leader; its messages may come late",
    "decider-move": "another replica is made the coordinator of transactional ids",
    "held-replica": "one replica's gate is held for long",
}
"""Sentences by kind, in the order of the tables."""
