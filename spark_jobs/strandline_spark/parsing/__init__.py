"""The parsers of record values, from bytes to typed columns in Arrow: no Spark, no table."""

from strandline_spark.parsing.checks import check_settings
from strandline_spark.parsing.inference import merge_fields
from strandline_spark.parsing.parser import Parser, make_parser
from strandline_spark.parsing.parts.type_names import column_type

__all__ = ["Parser", "check_settings", "column_type", "make_parser", "merge_fields"]
