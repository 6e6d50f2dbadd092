"""Bugs that a reader of the code chose: the controller, and a broker's view of it."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_CONTROLLER: Final = "strandline_broker.hosts.controller.controller"

READ_IN_CONTROL: Final = (
    Mutant(
        "new-disk-is-not-noted",
        "P-21, I-88",
        "a replica that joins the ISR on another disk stays recorded with the old one: its"
        " fetches do not count, and it is not elected when it is the last",
        (
            Edit(
                "strandline_broker.core.controller.partitions.alter_partition",
                "        state.brokers[b].directory_id if b in isr else directory\n",
                "        directory\n",
            ),
        ),
    ),
    Mutant(
        "dead-broker-in-a-new-topic",
        "I-23",
        "a topic created while a broker is away includes it in its ISRs: writes wait for that"
        " broker, which may be elected when it comes back",
        (
            Edit(
                "strandline_broker.core.controller.topics.topics",
                "        isr=isr,\n        leader=isr[0],\n",
                "        isr=replicas,\n        leader=isr[0],\n",
            ),
        ),
    ),
    Mutant(
        "move-without-copies-never-ends",
        "I-85, I-88",
        "a reassignment to replicas that are already in sync is not completed at its start, nor"
        " by anything later: the old replicas stay",
        (
            Edit(
                "strandline_broker.core.controller.partitions.reassignment",
                "    end = completion(state, changed(partition, begin, partition.changed_at),"
                " state.brokers)\n"
                "    return [begin] if end is None else [begin, end]\n",
                "    return [begin]\n",
            ),
        ),
    ),
    Mutant(
        "back-in-service-and-not-elected",
        "I-88",
        "a replica that its broker reports as fit again is not considered: a partition that only"
        " it could lead stays without a leader",
        (
            Edit(
                "strandline_broker.core.controller.partitions.offline_replicas",
                "    for topic_id, index in sorted(listed | known):\n",
                "    for topic_id, index in sorted(listed):\n",
            ),
        ),
    ),
    Mutant(
        "log-end-of-the-process-before",
        "I-53, P-75",
        "a log end counts although its broker has restarted since: after a second loss of power a"
        " replica is elected for records that it has lost",
        (
            Edit(
                "strandline_broker.core.controller.partitions.log_ends",
                "        if answer is None or answer.broker_epoch != broker.epoch:\n",
                "        if answer is None:\n",
            ),
        ),
    ),
    Mutant(
        "may-serve-before-what-it-cannot",
        "I-48, P-20",
        "a heartbeat's request to serve is decided before its list of unfit replicas: a broker"
        " that comes back is elected for a log that is damaged or gone",
        (
            Edit(
                _CONTROLLER,
                "        if has_news:\n"
                "            await self._decide_in_order(decide_offline_replicas, heartbeat)\n"
                "        if heartbeat.losses:\n"
                "            lost = await self._pipeline.submit("
                "partial(decide_losses, self.state, heartbeat))\n"
                "            self._recoveries.on_losses(lost)\n"
                "        if asks_for_change(self.state, heartbeat):\n"
                "            await self._decide_in_order(decide_heartbeat, heartbeat)\n",
                "        if heartbeat.losses:\n"
                "            lost = await self._pipeline.submit("
                "partial(decide_losses, self.state, heartbeat))\n"
                "            self._recoveries.on_losses(lost)\n"
                "        if asks_for_change(self.state, heartbeat):\n"
                "            await self._decide_in_order(decide_heartbeat, heartbeat)\n"
                "        if has_news:\n"
                "            await self._decide_in_order(decide_offline_replicas, heartbeat)\n",
            ),
        ),
    ),
    Mutant(
        "configs-only-in-snapshots",
        "I-81",
        "an altered topic configuration is pushed only with a change of partitions or a snapshot:"
        " brokers retain and compact by different values",
        (
            Edit(
                "strandline_broker.core.controller.push",
                "        for topic_id in {**changed, **changes.configs}\n",
                "        for topic_id in changed\n",
            ),
        ),
    ),
    Mutant(
        "sure-since-the-answer-came",
        "I-106",
        "a broker counts its certainty that it was not replaced from the controller's answer, not"
        " from its own request: after a late answer it returns outdated offsets",
        (
            Edit(
                "strandline_broker.hosts.member.lifecycle",
                "        self._sure_until_s = self._asked_s + SURE * self._session_s\n",
                "        self._sure_until_s = self.last_answer_s + SURE * self._session_s\n",
            ),
        ),
    ),
    Mutant(
        "elections-of-before-are-not-watched",
        "I-94, P-61",
        "a restarted controller does not watch whether earlier leaders apply its pushes: one that"
        " sends heartbeats and applies nothing is never fenced, and its partitions stand still",
        (
            Edit(
                _CONTROLLER,
                "        for partition in self.state.partitions():\n"
                "            if partition.leader != NO_LEADER:\n"
                "                self.applied.on_elected("
                "partition.leader, self.state.last_offset, now_ms)\n",
                "",
            ),
        ),
    ),
)
