"""The configuration keys of a broker as coordinator of transactions."""

from __future__ import annotations

from dataclasses import dataclass

from strandline_broker.config.groups import GroupCoordinatorConfig
from strandline_broker.config.key import declared as _key
from strandline_broker.config.parsers import RecordPlace, byte_count, ms, record_places


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinatorConfig(GroupCoordinatorConfig):
    transactional_id_expiration_ms: int = _key(
        ms(), "604800000", "Time after which a transactional id that is not used is forgotten."
    )
    transaction_max_timeout_ms: int = _key(
        ms(), "900000", "Maximum of the timeout that a producer asks for its transactions."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _key(
        ms(), "1000", "Time between two checks for transactions past their timeout."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _key(
        ms(), "3600000", "Time between two checks for transactional ids that are not used."
    )
    transaction_state_log_load_buffer_size: int = _key(
        byte_count(1),
        "5242880",
        "Bytes that a coordinator of transactions reads at a time when it loads its log, at most"
        " 1 MiB. A larger batch is read nevertheless.",
    )
    transaction_state_log_load_skip_records: tuple[RecordPlace, ...] = _key(
        record_places,
        "",
        "Records of __transaction_state, as PARTITION:OFFSET, that a coordinator skips if they do"
        " not parse.",
    )
