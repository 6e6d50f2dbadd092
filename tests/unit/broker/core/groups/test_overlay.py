"""An overlay is a dict that leaves the one below it alone."""

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.groups.overlay import Overlay

KEYS = st.integers(0, 5)


@given(
    below=st.dictionaries(KEYS, st.integers()),
    changes=st.lists(st.tuples(KEYS, st.none() | st.integers())),
)
def test_it_is_a_dict_over_another(
    below: dict[int, int], changes: list[tuple[int, int | None]]
) -> None:
    before = dict(below)
    model = dict(below)
    overlay = Overlay(below)
    for key, value in changes:
        if value is None:
            assert overlay.pop(key, None) == model.pop(key, None)
        else:
            overlay[key] = model[key] = value
        assert dict(overlay) == model
        assert len(overlay) == len(model)
        assert all((key in overlay) is (key in model) for key in range(6))
        assert bool(overlay) is bool(model)
    assert below == before
