"""Hosts and ports that can be dialled, and what is said of the others."""

import pytest

from strandline_broker.core.addresses import host_problem, port_problem


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "broker-1", "broker_1", "1", "a.b.example", "b.example.", "xn--bro-hoa"),
        *("127.0.0.1", "::", "::1", "fe80::1", "::ffff:10.0.0.1"),
        *("x" * 63, ".".join(["x" * 49] * 5)),
    ],
)
def test_names_and_addresses_that_a_resolver_takes_have_no_problem(host: str) -> None:
    assert host_problem(host) is None


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("", "the host is empty"),
        *((host, "has an empty part") for host in (".", "..", "a..b", ".a", "a..")),
        ("x" * 64, "a part of 64 characters"),
        (".".join(["x" * 50] * 5), "has 254 characters"),
        *((host, "is not of letters") for host in ("a b", "a\0", "-a", "a-", "a/b", "[a]", "a%1")),
        ("bücher", "write it as xn--"),
        *((host, "no IPv6 address") for host in ("a:1", ":", "unix:/x", "::1::", "fe80:%")),
    ],
)
def test_what_no_resolver_takes_is_named(host: str, said: str) -> None:
    problem = host_problem(host)
    assert problem is not None
    assert said in problem
    assert len(problem) < 200


def test_a_port_is_one_that_can_be_dialled() -> None:
    assert port_problem(1) is port_problem(65535) is None
    for port in (0, -1, 65536, 2**31 - 1):
        assert port_problem(port) == f"port {port} is not one from 1 to 65535"
