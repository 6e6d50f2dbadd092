"""The hash that places a group, which clients compute too: it belongs to the contract."""

from __future__ import annotations

from strandline_proto.java_hash import java_hash, partition_for

__all__ = ["java_hash", "partition_for"]
