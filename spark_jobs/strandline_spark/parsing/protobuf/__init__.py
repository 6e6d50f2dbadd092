"""Values that are Protobuf messages."""
