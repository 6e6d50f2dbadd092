"""What the benches send."""

import json

import pytest

from strandline_bench.payloads import clicks, compressible


@pytest.mark.parametrize("size", [100, 1024])
def test_clicks_are_objects_of_five_fields_and_about_that_size(size: int) -> None:
    values = list(clicks(300, size))
    assert len(values) == 300
    assert all(abs(len(value) - size) <= 2 for value in values)
    found = [json.loads(value) for value in values]
    assert {tuple(one) for one in found} == {("id", "user", "price", "at", "note")}
    assert len({one["id"] for one in found}) == 300


def test_half_of_a_compressible_value_repeats() -> None:
    assert {value[50:] for value in compressible(10, 100)} == {b"." * 50}
