from strandline_spark.data_source import StrandlineDataSource as DefaultSource  # noqa: F401 - Spark looks for it here
