from strandline_spark.source.source import StrandlineDataSource as DefaultSource  # noqa: F401 - Spark looks for it here
