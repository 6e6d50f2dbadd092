"""Bugs of what the controller announces and brokers make of it: topics that go and come back,
replicas that nobody claims, refusals that pass.
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
        "a deleted replica is dropped and its directory stays, and a topic made anew under that"
        " name takes it for its own",
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
        "after a snapshot a broker keeps replicas that nobody assigns to it",
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
        "clients hear of a replica that went offline or came back only with the next snapshot",
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
        "a log that a full disk kept from being opened is not opened when there is room",
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
