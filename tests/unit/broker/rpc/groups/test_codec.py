"""Commands and answers of groups on the wire and off it."""

from __future__ import annotations

import pytest

from strandline_broker.rpc.groups.codec import client_host


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:41234", "/127.0.0.1"),
        ("ipv6:%5B2001:db8::7%5D:41234", "/2001:db8::7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:41234", "/fe80::1%eth0"),
        ("ipv6:[::1]:41234", "/::1"),
        ("unix:", "/"),
    ],
)
def test_a_members_host_is_its_address_as_people_write_it(peer: str, host: str) -> None:
    """gRPC writes it as in a URI."""
    assert client_host(peer) == host
