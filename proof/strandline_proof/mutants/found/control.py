"""Bugs that the controller once had, under the plans that found them."""

from __future__ import annotations

from typing import Final

from strandline_proof.mutants.mutant import Edit, Mutant, Needs
from strandline_proof.sim.plan.plan import Fault
from strandline_proof.sim.topology.work import Work

_LOSSES: Final = "strandline_broker.hosts.replica.losses"

_LEADER: Final = "leader-0"
_JOINER: Final = "other-0"
_CUT: Final = {"hold": False, "one_way": False}
_ASKED_FOR_WHILE_FENCED: Final = Needs(
    topology={
        "partitions": 1,
        "balance_s": 300,
        "sends_per_s": 12,
        "crowd": 0,
        "groups": (),
        "offsets_partitions": 0,
        "work": Work(),
    },
    aimed=(
        Fault(0.7, "partition", {"a": _LEADER, "b": _JOINER, "for_s": 2.7, **_CUT}),
        Fault(
            2.75,
            "duplicate",
            {"a": _LEADER, "b": "controller", "for_s": 3.1, "probability": 0.7, "late_s": 1.0},
        ),
        Fault(2.5, "partition", {"a": "controller", "b": _JOINER, "for_s": 1.3, **_CUT}),
        Fault(3.15, "slow-link", {"a": _LEADER, "b": "controller", "for_s": 3.0, "ms": 200}),
        Fault(3.41, "reset", {"a": _LEADER, "b": _JOINER, "times": 1, "every_s": 0.05}),
        Fault(3.2, "partition", {"a": _LEADER, "b": _JOINER, "for_s": 3.0, **_CUT}, after="join"),
        Fault(3.81, "reset", {"a": "controller", "b": _JOINER, "times": 1, "every_s": 0.05}),
    ),
    alone=True,
)
"""A replica that has left the ISR catches up as its session ends. Its leader, which gets metadata
late, proposes it and is refused. When the replica is unfenced, the same request arrives once more,
and no fetch has come in between.
"""

FOUND_IN_CONTROL: Final = (
    Mutant(
        "late-word-of-a-dead-process",
        "P-71",
        "a registration of a dead process arrives late and takes the broker id away from the"
        " process that began since",
        (
            Edit(
                "strandline_broker.core.controller.brokers.registration",
                "    is_before = _is_of_before(old, request)\n",
                "    is_before = False and _is_of_before(old, request)\n",
            ),
        ),
        history="tests/unit/broker/core/controller/brokers/test_registration.py"
        "::test_the_late_word_of_a_dead_process_does_not_end_its_successor",
    ),
    Mutant(
        "loss-report-begins-at-the-log-end",
        "I-53",
        "the loss report of an unclean election begins at the end of the elected log, though"
        " later leaders may have committed other records below",
        (
            Edit(
                "strandline_broker.core.controller.partitions.recovery",
                "    below = end.shared_below(newest_led(partition))\n",
                "    below = end.offset\n",
            ),
            Edit(
                _LOSSES,
                "        shared = last.shared_below(state.leader_epoch - 2)\n",
                "        shared = last.offset\n",
            ),
        ),
        Needs(corpus="a-loss-below-the-end-of-the-elected-log"),
    ),
    Mutant(
        "loss-report-believes-an-older-copy",
        "I-53",
        "the loss report of an unclean election begins at the end of the elected log, though all"
        " disks are older than a leader that has answered",
        (
            Edit(
                "strandline_broker.core.push_answer",
                "        if all(holder is None or holder.known_epoch < surely_led"
                " for holder in holders):\n",
                "        if all(holder is None for holder in holders):\n",
            ),
        ),
        Needs(corpus="a-loss-below-the-end-of-the-elected-log"),
    ),
    Mutant(
        "minimum-of-a-move-not-looked-at",
        "I-50, I-91",
        "a change of min.insync.replicas that has no effect while a replica is added still clears"
        " the eligible replicas",
        (
            Edit(
                "strandline_broker.core.controller.topics.configs",
                "        if state.effective_min_isr(topic, p) != p.least_in_sync(int(minimum))\n",
                "        if state.effective_min_isr(topic, p)"
                " != min(int(minimum), len(p.replicas))\n",
            ),
        ),
        Needs(corpus="a-minimum-that-a-reassignment-holds-back"),
    ),
    Mutant(
        "failure-overtaken-by-any-change",
        "P-79, I-94",
        "the report that a leader cannot take its role is dropped after any later change of its"
        " partition",
        (
            Edit(
                "strandline_broker.core.controller.brokers.fencing",
                "told is None or told.elected_at > as_of:\n",
                "told is None or told.changed_at > as_of:\n",
            ),
        ),
        history="tests/unit/broker/core/controller/brokers/test_fencing.py"
        "::test_news_of_a_failure_is_not_old_because_somebody_else_left",
    ),
    Mutant(
        "fencing-leaves-old-requests-valid",
        "I-15, I-16",
        "a request from before a replica's fencing and unfencing adds that replica to the ISR",
        (
            Edit(
                "strandline_broker.core.controller.brokers.fencing",
                "    if partition.leader == NO_LEADER or broker_id in partition.isr:\n",
                "    if partition.leader >= NO_LEADER or broker_id in partition.isr:\n",
            ),
        ),
        _ASKED_FOR_WHILE_FENCED,
    ),
    Mutant(
        "members-stay-where-nobody-can-lead",
        "I-22",
        "a leader that cannot apply its election leaves other members in the ISR of a leaderless"
        " partition",
        (
            Edit(
                "strandline_broker.core.controller.partitions.election",
                "            rest = () if leader == NO_LEADER else (leader,)\n",
                "            rest = rest if leader == NO_LEADER else (leader,)\n",
            ),
        ),
        history="tests/unit/broker/core/controller/brokers/test_fencing.py"
        "::test_who_is_left_in_sync_and_cannot_apply_it_either_stays_eligible",
    ),
    Mutant(
        "missing-log-stays-eligible",
        "P-20, I-15",
        "a broker whose log is missing stays eligible after another broker is elected",
        (
            Edit(
                "strandline_broker.core.controller.partitions.offline_replicas",
                "        if condition is not None and condition.is_gone"
                " and change.leader != NO_LEADER:\n",
                "        if condition is not None and change.leader is None:\n",
            ),
        ),
        history="tests/unit/broker/core/controller/partitions/test_offline_replicas.py"
        "::test_a_leader_whose_log_is_missing_is_not_eligible_once_another_leads",
    ),
    Mutant(
        "overdue-though-it-has-gone-on",
        "I-94",
        "a leader that applies its election while its fencing waits is fenced all the same",
        (
            Edit(
                "strandline_broker.core.controller.brokers.fencing",
                "    if not applied.is_overdue(broker_id, now_ms, sessions.session_ms):\n",
                "    if now_ms < 0:\n",
            ),
        ),
        history="tests/unit/broker/core/controller/brokers/test_fencing.py"
        "::test_a_leader_that_went_on_while_its_end_waited_in_the_queue_is_not_fenced",
    ),
    Mutant(
        "stall-given-back-to-who-lost-none",
        "P-62, I-88",
        "a broker that was heard after a stall of the controller gets a session longer by the"
        " stall",
        (
            Edit(
                "strandline_broker.core.controller.brokers.sessions",
                "min(given_back_ms, now_ms + self.session_ms)",
                "given_back_ms",
            ),
        ),
        Needs(corpus="dead-in-a-stall"),
    ),
    Mutant(
        "answered-when-it-is-recorded",
        "I-94, P-79",
        "the answer that names a replica without its role waits until the disk has recorded the"
        " push",
        (
            Edit(
                "strandline_broker.hosts.member.push",
                "self.envelopes.late.limit_s()",
                "None",
            ),
        ),
        Needs(corpus="answer-held-up-by-its-record"),
        history="tests/unit/broker/rpc/cluster/test_push_late.py"
        "::test_what_is_not_applied_is_told_though_no_disk_records_the_push",
    ),
    Mutant(
        "refused-offsets-topic-ends-the-controller",
        "I-88",
        "the groups' topic, which the controller creates by itself, has no room on its brokers,"
        " and the refusal ends the controller at each start",
        (
            Edit(
                "strandline_broker.hosts.controller.administration",
                "            except WireError as refused:\n",
                "            except TimeoutError as refused:\n",
            ),
        ),
        history="tests/unit/broker/hosts/controller/test_administration.py"
        "::test_a_refused_offsets_topic_is_tried_again_and_does_not_end_the_controller",
    ),
    Mutant(
        "come-to-a-role-it-is-elected-around-for",
        "P-79, I-88",
        "a broker that takes its late role while another election passes it over is not elected"
        " again: the partition has no leader though the broker lives",
        (
            Edit(
                "strandline_broker.hosts.controller.push_answers",
                "failed=failed, as_of=as_of, came=came\n",
                "failed=failed, as_of=as_of, came=frozenset()\n",
            ),
        ),
        history="tests/unit/broker/hosts/controller/test_push_answers.py"
        "::test_who_is_elected_around_while_it_applies_a_snapshot_leads_again",
    ),
    Mutant(
        "eligible-replica-not-asked",
        "I-48, I-88",
        "a partition has no leader if no member of its ISR can apply an election, though an"
        " eligible replica lives",
        (
            Edit(
                "strandline_broker.core.controller.partitions.election",
                "            leader = elect(partition, (), brokers, elr=elr)\n",
                "            leader = NO_LEADER if rest else elect(partition, (), brokers, elr=elr)"
                "\n",
            ),
        ),
        history="tests/unit/broker/core/controller/brokers/test_fencing.py"
        "::test_who_is_eligible_leads_where_all_who_are_in_sync_cannot_apply_it",
    ),
    Mutant(
        "unfenced-without-a-session",
        "I-88",
        "a broker whose session ends while its request to serve waits for the controller's disk"
        " is unfenced without a session: no timeout fences it later",
        (
            Edit(
                "strandline_broker.core.controller.brokers.sessions",
                "        if broker_id not in self._sessions:\n",
                "        if broker_id not in self._sessions and now_ms < 0:\n",
            ),
        ),
        history="tests/unit/broker/hosts/controller/test_controller_sweep.py"
        "::test_whoever_is_unfenced_after_its_session_can_be_fenced_again",
    ),
    Mutant(
        "deposed-on-the-way-to-its-role",
        "I-83",
        "a replica that takes a role late leads by it, though its broker has reported a newer"
        " leader and is unfenced",
        (
            Edit(
                "strandline_broker.hosts.member.envelopes",
                "self.late.put_off(partition.key, partial(self._go_by, partition, state))",
                "pass",
            ),
        ),
        history="tests/unit/broker/rpc/cluster/test_push_late.py"
        "::test_who_is_deposed_on_the_way_to_its_role_does_not_lead",
    ),
)
