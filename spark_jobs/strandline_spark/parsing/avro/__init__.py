"""Values that are Avro datums."""
