"""The target replicas of a reassignment: read from a command line or a file, or computed with few
moves.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strandline_cli.errors import CliError, UsageMistake

Partition = tuple[str, int]
Plan = dict[Partition, tuple[int, ...]]


def parse_brokers(option: str, text: str) -> tuple[int, ...]:
    """Ids as in `1,2,4`: at least one, each of them once."""
    try:
        brokers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageMistake(f"{option} takes broker ids like 1,2,4, not {text!r}") from None
    if len(set(brokers)) != len(brokers):
        raise UsageMistake(f"{option} {text} names a broker twice: name each once")
    if min(brokers) < 0:
        raise UsageMistake(f"{option} {text}: a broker id is not negative")
    return brokers


def parse_plan(text: str, where: str) -> Plan:
    """Kafka's format: {"version": 1, "partitions": [{"topic", "partition", "replicas"}, ...]}."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as why:
        raise CliError(f"{where} is no JSON: {why}") from None
    if not isinstance(document, dict) or document.get("version", 1) != 1:
        raise CliError(f'{where} is no plan: {{"version": 1, "partitions": [...]}} is expected')
    partitions = document.get("partitions")
    if not isinstance(partitions, list) or not partitions:
        raise CliError(f"{where} names no partitions: its list `partitions` is missing or empty")
    plan: Plan = {}
    for number, entry in enumerate(partitions, 1):
        key, replicas = _entry(entry, f"{where}, partition entry {number}")
        if key in plan:
            raise CliError(f"{where}, partition entry {number}: {key[0]}:{key[1]} is there twice")
        plan[key] = replicas
    return plan


def _entry(entry: Any, where: str) -> tuple[Partition, tuple[int, ...]]:
    fields = entry if isinstance(entry, dict) else {}
    topic, partition, replicas = (fields.get(k) for k in ("topic", "partition", "replicas"))
    good = (
        isinstance(topic, str)
        and type(partition) is int
        and isinstance(replicas, list)
        and bool(replicas)
        and all(type(b) is int for b in replicas)
    )
    if not good:
        raise CliError(
            f'{where} is not like {{"topic": "t", "partition": 0, "replicas": [1, 2, 3]}}: '
            f"{json.dumps(entry)[:200]}"
        )
    return (str(topic), int(partition or 0)), tuple(replicas or ())


def plan_document(plan: Mapping[Partition, Sequence[int]]) -> dict[str, Any]:
    """The plan in the format that `--file` reads."""
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in sorted(plan.items())
        ],
    }


def spread(
    current: Mapping[Partition, tuple[int, ...]],
    racks: Mapping[int, str],
    *,
    replication_factor: int | None = None,
    level: bool = True,
    staying: Mapping[int, str] | None = None,
) -> Plan:
    """Replicas of every partition on the brokers of `racks` (id to rack, "" for none).

    - A replica that is on one of these brokers stays there, unless `level` asks for replica counts
      that differ by at most one as far as racks allow.
    - `staying` brokers keep their replicas too, and get no more.
    - Replicas are kept on different racks first, then brokers are filled evenly.
    - Partitions whose replicas stay keep their order.

    Raises CliError if there are fewer brokers than replicas wanted.
    """
    layout = _Layout(racks, {} if staying is None else staying)
    for partition, replicas in sorted(current.items()):
        wanted = len(replicas) if replication_factor is None else replication_factor
        possible = {*racks, *(layout.staying & {*replicas})}
        if wanted > len(possible):
            raise CliError(
                f"{partition[0]}:{partition[1]} is to have {wanted} replicas, and only "
                f"{len(possible)} brokers can hold them ({', '.join(map(str, sorted(possible)))}): "
                "start more brokers, or lower the replication factor with "
                f"`strandline reassign --topic {partition[0]} --replication-factor {len(possible)}`"
            )
        layout.keep(partition, replicas, wanted)
    for partition, replicas in sorted(current.items()):
        wanted = len(replicas) if replication_factor is None else replication_factor
        layout.fill(partition, replicas, wanted)
    if level:
        layout.level()
    layout.spread_leaders(current)
    return layout.plan


def moves(current: Mapping[Partition, tuple[int, ...]], plan: Plan) -> Plan:
    """The part of the plan that differs from the current replicas."""
    return {key: target for key, target in plan.items() if current.get(key) != target}


def copies(current: Mapping[Partition, tuple[int, ...]], plan: Plan) -> int:
    """The number of replicas to copy."""
    return sum(len(set(target) - set(current.get(key, ()))) for key, target in plan.items())


class _Layout:
    def __init__(self, racks: Mapping[int, str], staying: Mapping[int, str]) -> None:
        self.plan: Plan = {}
        self.staying = staying.keys() - racks.keys()
        self._racks = {**staying, **racks}
        self._load = dict.fromkeys(sorted(racks), 0)

    def keep(self, partition: Partition, replicas: Iterable[int], wanted: int) -> None:
        """The replicas that may stay, up to the wanted number."""
        kept = tuple(b for b in replicas if b in self._racks)[:wanted]
        self.plan[partition] = kept
        for broker in kept:
            if broker in self._load:
                self._load[broker] += 1

    def fill(self, partition: Partition, before: tuple[int, ...], wanted: int) -> None:
        """Put a new replica into the place of each that goes, so that the order says the same."""
        kept = self.plan[partition]
        new: list[int] = []
        while len(kept) + len(new) < wanted:
            broker = self._best((*kept, *new))
            self._load[broker] += 1
            new.append(broker)
        places = list(before[:wanted])
        result = [b if b in kept else -1 for b in places]
        result += [-1] * (wanted - len(result))
        rest = iter([*(b for b in kept if b not in result), *new])
        self.plan[partition] = tuple(next(rest) if b == -1 else b for b in result)

    def _best(self, taken: tuple[int, ...]) -> int:
        return min(
            (b for b in self._load if b not in taken),
            key=lambda b: (self._clashes(b, taken), self._load[b], b),
        )

    def _clashes(self, broker: int, others: Iterable[int]) -> int:
        """The number of other replicas on the same rack."""
        rack = self._racks[broker]
        return 0 if rack == "" else sum(self._racks[b] == rack for b in others)

    def level(self) -> None:
        while True:
            step = self._next_step()
            if step is None:
                return
            partition, source, to = step
            replicas = self.plan[partition]
            self.plan[partition] = tuple(to if b == source else b for b in replicas)
            self._load[source] -= 1
            self._load[to] += 1

    def _next_step(self) -> tuple[Partition, int, int] | None:
        """One replica from a full broker to an emptier one, racks no worse. Each step makes the
        sum of the squares of the loads smaller, so the steps end.
        """
        by_load = sorted(self._load, key=lambda b: (self._load[b], b))
        for source in reversed(by_load):
            for to in by_load:
                if self._load[source] - self._load[to] < 2:
                    break
                for partition, replicas in self.plan.items():
                    if source in replicas and to not in replicas:
                        others = [b for b in replicas if b != source]
                        if self._clashes(to, others) <= self._clashes(source, others):
                            return partition, source, to
        return None

    def spread_leaders(self, current: Mapping[Partition, tuple[int, ...]]) -> None:
        """Preferred leaders on all brokers alike. Only what moves anyway changes its order."""
        led = dict.fromkeys(self._racks, 0)
        moved = []
        for partition, replicas in self.plan.items():
            if set(replicas) == set(current[partition]):
                led[replicas[0]] += 1
            else:
                moved.append(partition)
        for partition in moved:
            replicas = self.plan[partition]
            first = min(replicas, key=lambda b: (led[b], replicas.index(b)))
            led[first] += 1
            self.plan[partition] = (first, *(b for b in replicas if b != first))
