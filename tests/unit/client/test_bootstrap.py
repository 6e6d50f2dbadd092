"""The first connection: a name that nobody has is not waited for."""

from __future__ import annotations

import pytest

from strandline import Admin, Consumer, Producer
from strandline.errors import NoBrokerReachable

NOWHERE = "name.invalid"


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
async def test_a_name_that_does_not_resolve_fails_at_once_if_there_is_no_other(
    client: type[Admin] | type[Producer],
) -> None:
    addresses = f"{NOWHERE}:9092,other.{NOWHERE}:9092"
    started = client(bootstrap_servers=addresses, connect_timeout_ms=600_000)
    with pytest.raises(NoBrokerReachable, match=f"does not resolve: {NOWHERE}, other.{NOWHERE}"):
        await started.start()
