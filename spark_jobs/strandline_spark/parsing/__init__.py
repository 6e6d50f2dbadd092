"""From the bytes of a record's value to typed columns, in Arrow: no Spark, no table."""
