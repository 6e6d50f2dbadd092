"""The path from Strandline topics to Delta tables: Spark's data source and sink, and the jobs of
`strandline-spark`.
"""

import sys

from strandline_runtime.grpc_experiments import without_event_engine

# A worker of Spark runs only our code (`python -m pyspark...`), so its environment may be set. A
# driver is the user's own program and keeps its environment.
_program = getattr(sys.modules["__main__"], "__spec__", None)
if _program is not None and _program.name.startswith("pyspark."):
    without_event_engine()
