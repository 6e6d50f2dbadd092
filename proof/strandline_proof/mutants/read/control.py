"""Bugs that a reader of the code chose: the controller, and what a broker believes of it."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant

_CONTROLLER: Final = "strandline_broker.hosts.controller.controller"

READ_IN_CONTROL: Final = (
    Mutant(
        "new-disk-is-not-noted",
        "P-21, I-88",
        "a replica that joins the ISR on another disk stays noted on the one before: its fetches"
        " count for nothing, and it is not elected when it is the last",
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
        "a topic that is created while a broker is away has it in its ISRs: writes wait for a"
        " broker that is not there, which may be elected when it comes back",
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
        "a reassignment to replicas that are in sync already is not ended when it begins, and"
        " nothing else comes to end it: the replicas that were to go stay",
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
        "a replica that its broker reports as unfit no more is not looked at: the partition that it"
        " alone could lead stays without a leader",
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
        "where a log ended counts although its broker has started anew since: after a second loss"
        " of power a replica is elected for records that it has lost",
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
        "a heartbeat's wish to serve is decided before the replicas that it names as unfit: a"
        " broker that comes back is elected for a log that is damaged or gone",
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
        "an altered configuration of a topic is pushed only with a change of its partitions or a"
        " snapshot: some brokers retain and compact by the old one, some by the new",
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
        "a broker counts the time in which nobody was elected in its place from the controller's"
        " answer, not from its own question: after a late answer it tells what another has changed",
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
        "a restarted controller does not watch whether the leaders of before apply what it pushes:"
        " one that beats and applies nothing is never fenced, and its partitions stand still",
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
