"""Maintenance of a lake beside its job: compaction, vacuum, retention and deletion of rows."""
