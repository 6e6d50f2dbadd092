"""Bugs that a reader of the code chose: the coordinator of groups and offsets."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

READ_IN_GROUPS: Final = (
    Mutant(
        "renewed-timer-is-not-set-again",
        "I-137",
        "a timer that was renewed while queued is dropped when it fires: a member that dies after"
        " a heartbeat keeps its partitions, and no other member reads them",
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
        "a member that reopens its stream with a full heartbeat gets no full answer: a grant that"
        " was lost with the old stream is never consumed",
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
        "a group's hash of its topics leaves out their partition counts: added partitions are not"
        " consumed until the group changes for another reason",
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
        "a resolved regular expression is not resolved again when topics are created: its"
        " subscribers never read the new topics",
        (
            Edit(
                "strandline_broker.core.groups.groups",
                "context.inputs.wall_ms, again=True)\n",
                "context.inputs.wall_ms, again=False)\n",
            ),
        ),
    ),
    Mutant(
        "offsets-of-the-living-expire",
        "I-148, P-110",
        "committed offsets expire by age although members of the group read the topic: a member"
        " without commits for the retention time starts over after a rebalance",
        (
            Edit(
                "strandline_broker.core.groups.expiry",
                "        if self._subscribed is None or topic in self._subscribed:\n"
                "            return None\n",
                "",
            ),
        ),
    ),
    Mutant(
        "later-mark-goes-with-the-earlier",
        "I-104, I-131",
        "two writes about a group or member both count as committed when the first is: a member"
        " learns of a change that the next coordinator may lack",
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
        "a session that ends while too few replicas of the groups' log are in sync is not checked"
        " again: the dead member keeps its partitions",
        (
            Edit(
                "strandline_broker.hosts.coordination.shard_host",
                "        except WireError:\n"
                "            if self.machine.state is ShardState.ACTIVE:\n"
                "                self.context.timers.start(self, key, RETRY_MS, epoch)\n",
                "        except WireError:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "short-read-ends-the-load",
        "I-102, P-109",
        "a load takes a short read for the log's end: a new coordinator of a log of several"
        " segments loads only the groups and offsets of the first",
        (
            Edit(
                "strandline_broker.hosts.coordination.loader",
                "        offset = read.next_offset\n",
                "        offset = read.next_offset\n"
                "        if len(read.records) < context.loads.buffer_bytes:\n"
                "            break\n",
            ),
        ),
    ),
    Mutant(
        "instance-is-taken-from-the-living",
        "I-124, P-111",
        "a second process with an instance id gets the place and the partitions of the first,"
        " which still lives and reads on",
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
        "the range assignor gives one member too many an extra partition, which the next member"
        " gets too, or which does not exist",
        (
            Edit(
                "strandline_broker.core.groups.assignors.range",
                "                after = first + quotient + (index < rest)\n",
                "                after = first + quotient + (index <= rest)\n",
            ),
        ),
    ),
)
