"""The effect of each kind of fault, in a sentence for the tables of proof/planted-bugs.md."""

from __future__ import annotations

from typing import Final

MEANING: Final[dict[str, str]] = {
    "kill": "SIGKILL; the process starts again after 0.05 to 3 s, about a session",
    "stop": "SIGTERM, and a start later",
    "pause": "SIGSTOP and SIGCONT, short or beyond the session",
    "stall": "the event loop stands still for 0.3 to 10 s, the threads go on",
    "power": "one machine, all brokers or all servers lose power: each dirty page of 4 KiB is kept,"
    " lost or torn at 512 bytes, and directory operations are undone from the end",
    "crash-point": "power goes right before the n-th disk operation from then on",
    "crash-loop": "two to five starts that each live for 0.02 to 0.4 s",
    "crash-at": "the end comes right before a named place (`kinds/places.py`): an append, a flush,"
    " a step of a checkpoint, of a cut, of a deletion, of a start's recovery, of a cleaning, of the"
    " controller's store",
    "delay-at": "a thread stands still at such a place for 0.05 to 2 s while the others go on, or"
    " what it has done is known so much later",
    "lost-answer": "the n-th answer to a named method is lost by a reset, when all is done",
    "twin": "another machine runs under a broker's id, on a copy of its disk or an empty one, and"
    " goes for good after 0.3 to 4 s",
    "second": "a second process on the directory of a broker or of the controller; the lock must"
    " keep it out",
    "partition": "nothing passes between two nodes, one way or both; it is dropped, or held and"
    " comes late",
    "isolate": "one node alone",
    "split": "halves, a ring of majorities, a bridge, the controller, the replicas or the clients"
    " cut off",
    "slow-link": "20 to 500 ms more in each direction",
    "lossy-link": "lost packets, which TCP turns into delay",
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
    "misread": "bytes of another place, or older ones, are read; not by what opens a log, to which"
    " they look like a torn tail, and not of the compacted topic, where"
    " a later batch of the same size cannot be told from the one that was asked for",
    "disk-full": "no room, then room again",
    "bit-flip": "bits of a log, index or time index change, in a running broker or a stopped one;"
    " of a log only below the recovery point, in one replica at a time, while the ISR is full",
    "file-flip": "the same in a file that is read at a start alone, while its process is down",
    "helix": "another part is gone at each replica: nobody may be given what is wrong",
    "store-flip": "the controller's log: a start is refused until the file is put back",
    "snapshot-flip": "one of the controller's snapshots: the next start takes the other one",
    "zero-tail": "zeros behind the end of a log",
    "wipe": "an empty disk under the same id",
    "store-restored": "the controller's directory is put back as it was 0.5 to 4 s ago; the first"
    " broker that it meets must end it, and `controller restore` follows",
    "clock-jump": "the wall clock jumps",
    "clock-rate": "both clocks go faster or slower",
    "clock-strobe": "the wall clock jumps there and back, quickly",
    "clock-freeze": "the wall clock stands still",
    "topic-recreate": "a topic under load is deleted and made again under its name",
    "min-insync": "another min.insync.replicas for a while",
    "delete-records": "records are deleted by command, some or all",
    "retention": "a lower retention.bytes for a while, with a look every 0.6 s",
    "compaction": "a compacted topic of few keys and small segments, cleaned every 0.5 s; later"
    " ones alter its configuration or take `compact` away",
    "unclean": "unclean elections are allowed for a while",
    "elect-preferred": "preferred leaders are asked for",
    "move-leader": "a leader is moved",
    "add-partitions": "the topic gets more partitions",
    "reassign": "a partition moves to other brokers",
    "reassign-cancel": "the same, and it is cancelled under way",
    "reassign-override": "the same, and another target is named under way",
    "reassign-few": "a partition moves to fewer brokers than its minimum asks for, and to more"
    " again 0.1 to 2.5 s later; those that are added may die on the way",
    "resend": "a batch of the log comes again: it is known or refused, never appended twice",
    "hostile-batch": "a right checksum over records that do not fit their batch, or over times out"
    " of bounds: never acknowledged",
    "member-crash": "a member of a group is killed, and comes back",
    "member-leave": "a member leaves in order, and comes back",
    "member-pause": "a member stands still for 0.3 to 3 s, below or beyond its session",
    "member-busy": "an application does not poll, and the library does its part",
    "member-cut": "a member does not reach its coordinator",
    "group-empty": "all members go, in order or killed, and come back together",
    "coordinator-move": "another replica is made the group's coordinator",
    "coordinator-reassign": "the coordinator's partition moves to other brokers",
    "offsets-flip": "bits of a log of `__consumer_offsets` change, as those of a log by `bit-flip`",
    "held-replica": "something long goes on under one replica's gate",
}
"""Sentences by kind, in the order of the tables."""
