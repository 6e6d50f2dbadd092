"""Each measure that the options know has its module."""

import importlib.util

import pytest

from strandline_bench.main import ROOMS, module_of
from strandline_bench.options import MEASURES
from strandline_bench.spark.options import ALONE


@pytest.mark.parametrize("measure", [*MEASURES, *ROOMS, *ALONE])
def test_a_measure_has_a_module(measure: str) -> None:
    assert importlib.util.find_spec(f"strandline_bench.{module_of(measure)}") is not None
