"""From Strandline topics to Delta tables: Spark's data source, the jobs of `strandline-spark`."""

import sys

from strandline_runtime.grpc_experiments import without_event_engine

# A worker of Spark's is a program that only works for us, `python -m pyspark...`; a driver is the
# user's own, and keeps its environment.
_program = getattr(sys.modules["__main__"], "__spec__", None)
if _program is not None and _program.name.startswith("pyspark."):
    without_event_engine()
