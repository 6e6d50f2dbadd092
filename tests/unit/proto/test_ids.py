"""Topic ids as people see them: Kafka's url-safe base64 without padding."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_proto.ids import topic_id_bytes, topic_id_text


@given(raw=st.binary(min_size=16, max_size=16))
def test_every_id_survives_being_written_and_read(raw: bytes) -> None:
    text = topic_id_text(raw)
    assert len(text) == 22
    assert "=" not in text
    assert topic_id_bytes(text) == raw


def test_an_id_is_written_with_the_url_safe_alphabet() -> None:
    raw = bytes([0xFB, 0xFF] * 8)
    assert topic_id_text(raw) == urlsafe_b64encode(raw).decode().rstrip("=")
    assert set("+/").isdisjoint(topic_id_text(raw))


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 24, "not base64 at all!"])
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"topic id|padding|characters|base64"):
        topic_id_bytes(text)
