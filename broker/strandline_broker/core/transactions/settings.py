"""The configuration of transactions; names and defaults are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 86_400_000
