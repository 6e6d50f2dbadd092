"""Bugs that a reader of the code chose: the coordinator of groups and offsets."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

READ_IN_GROUPS: Final = (
    Mutant(
        "renewed-timer-is-not-set-again",
        "I-137",
        "a timer that was renewed since it was queued is dropped when it is looked at: a member"
        " that dies after a heartbeat keeps its partitions, and nobody reads them",
        (
            Edit(
                "strandline_broker.hosts.coordination.timers",
                "            if timer.deadline_ms > now_ms:\n"
                "                self._queue(timer)\n"
                "                continue\n",
                "            if timer.deadline_ms > now_ms:\n                continue\n",
            ),
        ),
    ),
    Mutant(
        "full-answer-to-who-joins-alone",
        "I-88, I-134",
        "a member that opens its stream again and says everything is not told everything: a grant"
        " that was lost with the stream before is known to the coordinator and to nobody who reads",
        (
            Edit(
                "strandline_broker.core.groups.consumer.heartbeat",
                "    return subscribes and beat.rebalance_timeout_ms != UNCHANGED"
                " and beat.owned is not None\n",
                "    return subscribes and beat.member_epoch == JOIN_EPOCH\n",
            ),
        ),
    ),
    Mutant(
        "hash-without-the-partitions",
        "I-141",
        "how many partitions a topic has is no part of what a group remembers of it: partitions"
        " that are added are read by nobody until the group changes for another reason",
        (
            Edit(
                "strandline_broker.core.groups.consumer.subscription",
                'digest.update(topic.topic_id + len(topic.partitions).to_bytes(4, "big"))\n',
                "digest.update(topic.topic_id)\n",
            ),
        ),
    ),
    Mutant(
        "new-topics-match-no-pattern",
        "I-141",
        "a regular expression that was resolved once is not resolved again when topics come: who"
        " subscribes by it never reads a topic that is created later",
        (
            Edit(
                "strandline_broker.core.groups.groups",
                "context.inputs.wall_ms, anew=True)\n",
                "context.inputs.wall_ms, anew=False)\n",
            ),
        ),
    ),
    Mutant(
        "offsets-of-the-living-expire",
        "I-148, P-110",
        "committed offsets expire by their age although members of the group read the topic: one"
        " that has had nothing to commit for the retention time begins anew after a rebalance",
        (
            Edit(
                "strandline_broker.core.groups.expiry",
                "        if topic in self._subscribed:\n            return None\n",
                "",
            ),
        ),
    ),
    Mutant(
        "later-mark-goes-with-the-earlier",
        "I-104, I-131",
        "when the first of two writes about a group or member is committed, the second counts as"
        " committed too: a member is told what the next coordinator may not know",
        (
            Edit(
                "strandline_broker.core.coordination.shard",
                "            if self._written.get(entity) == end:\n"
                "                del self._written[entity]\n",
                "            self._written.pop(entity, None)\n",
            ),
        ),
    ),
    Mutant(
        "end-of-a-session-is-not-tried-again",
        "I-137",
        "a session that ends while too few replicas of the groups' log are in sync is not looked at"
        " again: the dead member keeps its partitions",
        (
            Edit(
                "strandline_broker.hosts.coordination.shard_host",
                "        except WireError:\n"
                "            if self.machine.state is ShardState.ACTIVE:\n"
                "                self.context.timers.start(self, key, RETRY_MS, member_epoch)\n",
                "        except WireError:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "short-read-ends-the-load",
        "I-102, P-109",
        "a load takes a read that does not fill its buffer for the last one: a new coordinator of"
        " a log of several segments knows only the groups and offsets of the first",
        (
            Edit(
                "strandline_broker.hosts.coordination.loader",
                "        offset = read.next_offset\n",
                "        offset = read.next_offset\n"
                "        if len(read.records) < context.config.offsets_load_buffer_size:\n"
                "            break\n",
            ),
        ),
    ),
    Mutant(
        "instance-is-taken-from-the-living",
        "I-124, P-111",
        "a second process under an instance id gets the place and the partitions of the first while"
        " that lives and reads on",
        (
            Edit(
                "strandline_broker.core.groups.consumer.static_members",
                "    if not group.current(former).is_absent:\n",
                "    if former not in group.members:\n",
            ),
        ),
    ),
    Mutant(
        "ranges-overlap-where-the-rest-ends",
        "I-129",
        "the range assignor gives one member too many an extra partition, which the next one gets"
        " as well, or which is not there",
        (
            Edit(
                "strandline_broker.core.groups.assignors.range",
                "                after = first + quotient + (index < rest)\n",
                "                after = first + quotient + (index <= rest)\n",
            ),
        ),
    ),
)
