"""Bugs of the controller's pushes and of brokers that apply them: re-created topics, replicas
without an assignment, errors that pass.
"""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs

_CACHE: Final = "strandline_broker.core.metadata_cache"
_IDENTITY: Final = "strandline_broker.storage.directory.partition_identity"
_LOGS: Final = "strandline_broker.hosts.member.replica_logs"
_ENVELOPES: Final = "strandline_broker.hosts.member.envelopes"
_PUSH: Final = "strandline_broker.core.controller.push"
_CHURN: Final = Needs(kinds=("topic-recreate", "topic-recreate", "kill", "stop", "pause"))

ANNOUNCING: Final = (
    Mutant(
        "deleted-topic-keeps-its-files",
        "P-19, P-51, I-36",
        "a deleted replica is dropped but its directory stays, and a topic re-created under that"
        " name takes it over",
        (
            Edit(
                _ENVELOPES,
                "            await self._logs.delete(partition)\n",
                "",
            ),
            Edit(
                _IDENTITY,
                "    if (found, new.partition) not in hosted and (is_ours or not is_open):\n"
                "        return not is_ours\n",
                "    if found is not None:\n        return False\n",
            ),
        ),
        _CHURN,
    ),
    Mutant(
        "strays-kept-in-service",
        "P-19, I-87",
        "a broker keeps replicas after a snapshot that assigns them to no broker",
        (
            Edit(
                _ENVELOPES,
                "        if envelope.full:\n            await self._set_strays_aside(envelope)\n",
                "",
            ),
        ),
        _CHURN,
    ),
    Mutant(
        "snapshot-only-adds",
        "P-79, I-81",
        "a topic that a snapshot does not name stays known",
        (
            Edit(
                _CACHE,
                "    topics: dict[TopicId, CachedTopic] = {} if envelope.full else"
                " _copied(view.topics_by_id)\n",
                "    topics: dict[TopicId, CachedTopic] = _copied(view.topics_by_id)\n",
            ),
            Edit(
                _CACHE,
                "    ids: dict[str, TopicId] = {} if envelope.full else"
                " _copied(view.ids_by_name)\n",
                "    ids: dict[str, TopicId] = _copied(view.ids_by_name)\n",
            ),
        ),
        Needs(kinds=("topic-recreate", "topic-recreate", "isolate", "isolate")),
    ),
    Mutant(
        "offline-replicas-only-in-snapshots",
        "P-72, I-81",
        "clients learn of a replica that went offline or came back only with the next snapshot",
        (
            Edit(
                _PUSH,
                "    for broker_id in sorted(touched):\n",
                "    for broker_id in sorted(touched)[:0]:\n",
            ),
        ),
        Needs(kinds=("kill", "stop", "isolate")),
    ),
    Mutant(
        "kept-out-for-good",
        "I-88",
        "a log that could not be opened on a full disk stays closed after room is free",
        (
            Edit(
                _LOGS,
                "        for key in filter(self.waits_for_room, list(self._unopened)):\n",
                "        for key in filter(self.waits_for_room, ()):\n",
            ),
        ),
        Needs(topology={"flush_policy": "always"}, kinds=("disk-full", "kill")),
    ),
)
