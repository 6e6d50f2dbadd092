"""A broker's decisions about an administrator's request before the controller gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from strandline_broker.core.controller.topics.configs import GROUP, SET
from strandline_broker.core.groups.group_config import check_group_configs
from strandline_proto.errors import InvalidReplicationFactor, InvalidRequest, WireError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from strandline_broker.core.controller.partitions.reassignment import Wish as Reassignment
    from strandline_broker.core.controller.topics.configs import Alteration
    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_broker.core.metadata_cache import MetadataView

Key = TypeVar("Key")
Wish = TypeVar("Wish")
Result = TypeVar("Result")

TIMEOUT_S_MIN: Final = 0.1
TIMEOUT_S_DEFAULT: Final = 30.0
TIMEOUT_S_MAX: Final = 300.0


class ConfigChange(NamedTuple):
    """A request to alter the configuration of one resource."""

    resource_type: int
    name: str
    alterations: tuple[Alteration, ...]


def refused_configs(
    resource_type: int, entries: Mapping[str, str], settings: GroupSettings
) -> WireError | None:
    """Returns the broker's reason to refuse the new values; None if the controller decides.

    The bounds of a group's keys are the brokers' own.
    """
    if resource_type != GROUP:
        return None
    try:
        check_group_configs(entries, settings)
    except WireError as error:
        return error
    return None


def checked_change(change: ConfigChange, settings: GroupSettings) -> ConfigChange | WireError:
    """Returns the change, or the broker's reason to refuse it."""
    entries = {each.key: each.value.strip() for each in change.alterations if each.operation == SET}
    return refused_configs(change.resource_type, entries, settings) or change


def refused_factors(
    wishes: Mapping[tuple[str, int], Reassignment | WireError],
    view: MetadataView,
    originals: Mapping[tuple[str, int], Sequence[int]],
) -> dict[tuple[str, int], Reassignment | WireError]:
    """Returns the wishes, with a refusal for each that changes a replication factor.

    `originals`: the replicas before the reassignments under way.
    """
    return {
        key: wish if isinstance(wish, WireError) else _same_factor(wish, view, originals.get(key))
        for key, wish in wishes.items()
    }


def _same_factor(
    wish: Reassignment, view: MetadataView, original: Sequence[int] | None
) -> Reassignment | WireError:
    topic = view.topic_named(wish.topic)
    known = None if topic is None else topic.partitions.get(wish.partition)
    if known is None or wish.target is None:
        return wish
    before = len(known.replicas if original is None else original)
    if len(wish.target) == before:
        return wish
    return InvalidReplicationFactor(
        f"{wish.topic}:{wish.partition}: the target has {len(wish.target)} replicas instead of"
        f" {before}, and the request allows no change of their number"
    )


def timeout_s(timeout_ms: int) -> float:
    """Returns the request's own limit within bounds; a request without one gets the default."""
    if timeout_ms <= 0:
        return TIMEOUT_S_DEFAULT
    return min(max(timeout_ms / 1000, TIMEOUT_S_MIN), TIMEOUT_S_MAX)


def named_once(wishes: Iterable[tuple[Key, Wish | WireError]]) -> dict[Key, Wish | WireError]:
    """Returns the wish for each key, in order. A key with several wishes is refused."""
    found: dict[Key, Wish | WireError] = {}
    for key, wish in wishes:
        found[key] = InvalidRequest("it is named twice in one request") if key in found else wish
    return found


async def decide_each(
    wishes: Mapping[Key, Wish | WireError],
    decide: Callable[[list[Wish]], Awaitable[list[Result | WireError]]],
) -> dict[Key, Result | WireError]:
    """Returns the result for each key, in order: its refusal, or the controller's decision.

    `decide` gets the wishes that are not refused. If it raises, its error is the result of each.
    """
    left = {key: wish for key, wish in wishes.items() if not isinstance(wish, WireError)}
    decided: list[Result | WireError] = []
    if left:
        try:
            decided = await decide(list(left.values()))
        except WireError as error:
            decided = [error] * len(left)
    results = dict(zip(left, decided, strict=True))
    return {
        key: wish if isinstance(wish, WireError) else results[key] for key, wish in wishes.items()
    }
