"""The two classic histories: a record lost, and two replicas that differ at one offset (P-1).

Each is told twice with the same events, with replicas that truncate to their high watermark and
with replicas that reconcile by leader epochs. The transcripts in `kip101/` say what everyone held
after each event; run with UPDATE_GOLDEN=1 to write them anew after a change that is meant.
"""

import os
from pathlib import Path

import pytest

from strandline_proto.ids import BrokerId
from support.partition_states import A, B, C
from support.replica_group import ReplicaGroup

FOLDER = Path(__file__).parent / "kip101"
NAMES = {A: "A", B: "B", C: "C"}
WAYS = pytest.mark.parametrize("way", ["high-watermark", "leader-epoch"])


class Story:
    """Carries out events and writes down what each of them left behind."""

    def __init__(self, way: str, *, min_isr: int) -> None:
        self.group = ReplicaGroup(
            min_isr=min_isr, truncate_to_high_watermark=way == "high-watermark"
        )
        self.lines = [f"truncation by {way}, min.insync.replicas={min_isr}"]
        self.note("everyone in sync, A leads")

    def note(self, event: str) -> None:
        self.lines += ["", event]
        for broker_id, replica in self.group.replicas.items():
            role = "leads" if replica.leader is not None else "follows"
            records = ", ".join(f"{e.value} (epoch {e.epoch})" for e in replica.log.entries)
            self.lines.append(
                f"  {NAMES[broker_id]} {role if replica.alive else 'is dead'}:"
                f" [{records}] high watermark {replica.log.high_watermark}"
            )
        isr = ", ".join(NAMES[b] for b in self.group.isr_ids())
        acknowledged = ", ".join(self.group.acknowledged) or "nothing"
        self.lines.append(
            f"  controller: leader {NAMES.get(self.group.decided.leader, 'none')}"
            f" in epoch {self.group.decided.leader_epoch}, ISR {{{isr}}};"
            f" acknowledged: {acknowledged}"
        )

    def kill(self, broker_id: BrokerId) -> None:
        self.group.kill(broker_id)
        self.note(f"{NAMES[broker_id]} is killed")

    def learn(self, broker_id: BrokerId) -> None:
        self.group.learn(broker_id)
        self.note(f"{NAMES[broker_id]} learns what the controller decided")

    def fetch(self, broker_id: BrokerId, *, answered: bool = True) -> None:
        self.group.ask(broker_id)
        if answered:
            self.group.deliver(broker_id)
        else:
            self.group.replicas[broker_id].in_flight = None
        self.note(f"{NAMES[broker_id]} fetches" + ("" if answered else ", the answer is lost"))

    def produce(self, broker_id: BrokerId, value: str) -> None:
        self.group.produce(broker_id, value)
        self.note(f"{NAMES[broker_id]} appends {value}")

    def restart(self, broker_id: BrokerId) -> None:
        self.group.restart(broker_id)
        self.note(f"{NAMES[broker_id]} returns")

    def values(self, broker_id: BrokerId) -> list[str]:
        return self.group.replicas[broker_id].log.values()

    def compare_with(self, name: str) -> None:
        told = "\n".join(self.lines) + "\n"
        path = FOLDER / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.write_text(told)
        assert told == path.read_text(), f"{path} tells another history"


def leaders_die_one_after_the_other(story: Story) -> None:
    """m is acknowledged; B is elected and dies before C has fetched from it; C leads."""
    story.produce(A, "m")
    story.fetch(B)
    story.fetch(C)
    story.fetch(B)
    story.fetch(C, answered=False)
    assert story.group.acknowledged == {"m": 0}
    assert story.group.replicas[C].log.high_watermark == 0, "it travels one fetch late"
    story.kill(A)
    story.learn(B)
    story.learn(C)
    story.kill(B)
    story.learn(C)


@WAYS
def test_loss_an_acknowledged_record_is_gone_by_watermarks_and_kept_by_epochs(way: str) -> None:
    story = Story(way, min_isr=2)
    leaders_die_one_after_the_other(story)
    story.restart(B)
    story.learn(B)
    story.fetch(B)
    story.fetch(B)
    story.compare_with(f"loss.{way}")
    if way == "high-watermark":
        assert story.values(C) == [], "the new leader never heard that m was committed"
        assert story.values(B) == [], "and the others follow it"
    else:
        assert story.values(C) == story.values(B) == ["m"]


@WAYS
def test_divergence_two_records_share_an_offset_by_watermarks_and_never_by_epochs(way: str) -> None:
    story = Story(way, min_isr=1)
    leaders_die_one_after_the_other(story)
    story.produce(C, "m2")
    story.restart(A)
    story.learn(A)
    story.fetch(A)
    story.fetch(A)
    story.produce(C, "n")
    story.fetch(A)
    story.fetch(A)
    story.compare_with(f"divergence.{way}")
    if way == "high-watermark":
        assert story.values(A) == ["m", "n"], "A sees no reason to cut: its watermark is past m"
        assert story.values(C) == ["m2", "n"]
        assert set(story.group.acknowledged) == {"m", "m2", "n"}
    else:
        assert story.values(A) == story.values(C) == ["m", "m2", "n"]
