"""The settings of transactions, taken from the broker's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from strandline_broker.config.transactions import TransactionCoordinatorConfig


def transaction_settings(config: TransactionCoordinatorConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
    )
