"""An option that a client does not have is refused with the nearest name or the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from strandline import Admin, Consumer, Producer, sync
from strandline._net.kafka_names import RENAMED, UNSUPPORTED
from strandline._net.option_names import names_of
from strandline.errors import ConfigurationError, UnsupportedFeature

CLIENTS: list[Any] = [Producer, Consumer, Admin, sync.Producer, sync.Consumer, sync.Admin]


def made(client: Any, **options: object) -> object:
    return client(bootstrap_servers="h:1", **options)


@pytest.mark.parametrize(
    ("client", "given", "near"),
    [
        (Producer, "lingerms", "linger_ms"),
        (Producer, "Linger_Ms", "linger_ms"),
        (Producer, "compression", "compression_type"),
        (Producer, "linger.ms", "linger_ms"),
        (Producer, "max_batch_size", "batch_size"),
        (Producer, "max.in.flight.requests.per.connection", "max_in_flight"),
        (Producer, "queue_bufering_max_ms", "linger_ms"),
        (Consumer, "auto_ofset_reset", "auto_offset_reset"),
        (Consumer, "offset_reset", "auto_offset_reset"),
        (Consumer, "fetch-wait-max-ms", "fetch_max_wait_ms"),
        (Admin, "request_timeout", "request_timeout_ms"),
    ],
)
def test_a_misspelt_option_names_the_nearest(client: Any, given: str, near: str) -> None:
    for each in (client, getattr(sync, client.__name__)):
        with pytest.raises(ConfigurationError) as caught:
            made(each, **{given: 5})
        text = str(caught.value)
        assert text.startswith(f"{client.__name__} has no option {given}=5; ")
        assert text.removesuffix("?").endswith(f" {near}")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("enable.ssl.certificate.verification", "plaintext"),
        ("sasl_mechanism", "plaintext"),
        ("ssl_context", "plaintext"),
        ("ssl.ca.location", "plaintext"),
        ("client_rack", "partition's leader"),
        ("retries", "delivery_timeout_ms"),
        ("loop", "event loop"),
        ("session.timeout.ms", "consumer.session.timeout.ms"),
    ],
)
def test_an_option_of_other_libraries_is_refused_with_the_remedy(
    client: Any, name: str, remedy: str
) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"^\w+ does not support {name}='x': .*{remedy}"):
        made(client, **{name: "x"})


def test_a_misspelt_unsupported_option_is_not_called_supported() -> None:
    with pytest.raises(ConfigurationError, match="does not support debug either"):
        made(Consumer, debg="a")


def test_an_option_like_no_other_leads_to_the_list() -> None:
    with pytest.raises(ConfigurationError, match=r"qqq=1; docs/reference/client-api\.md lists"):
        made(Producer, qqq=1)


def test_every_wrong_option_of_a_call_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"lingerms=5; .*linger_ms\?; .*retries=3: "):
        made(Producer, lingerms=5, retries=3)


@pytest.mark.parametrize("name", ["sasl_plain_password", "ssl_keyfile_password", "client_secret"])
def test_a_secret_is_not_shown(name: str) -> None:
    with pytest.raises((ConfigurationError, UnsupportedFeature)) as caught:
        made(Producer, **{name: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(Producer, lingerms="x" * 10_000)
    assert len(str(caught.value)) < 200


def test_a_missing_bootstrap_servers_that_is_misspelt_is_named() -> None:
    client: Any = Consumer
    with pytest.raises(ConfigurationError, match="did you mean bootstrap_servers"):
        client("orders", bootstrap_server="h:1")


def test_the_tables_name_nothing_that_a_client_has() -> None:
    known = names_of(Producer.__init__) | names_of(Consumer.__init__) | names_of(Admin.__init__)
    assert not known & UNSUPPORTED.keys()
    assert not known & RENAMED.keys()
    assert not RENAMED.keys() & UNSUPPORTED.keys()
    assert set(RENAMED.values()) <= known


def test_a_client_of_ones_own_has_options_of_its_own() -> None:
    class Mine(Producer):
        def __init__(self, mine: int, **options: Any) -> None:
            super().__init__("h:1", **options)
            self.mine = mine

    assert Mine(3, linger_ms=5).mine == 3
    with pytest.raises(ConfigurationError, match=r"^Mine has no option lingerms=5"):
        Mine(3, lingerms=5)
