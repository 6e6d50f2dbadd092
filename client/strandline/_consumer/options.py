"""Validates the options of a consumer before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline._core.position import EARLIEST, LATEST
from strandline._net import arguments as given
from strandline._net.offsets import READ_COMMITTED, READ_UNCOMMITTED
from strandline.errors import ConfigurationError

_POLICIES: Final[dict[str, int | None]] = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "error": None,
    "none": None,
}

_ISOLATION_LEVELS: Final = {
    "read_uncommitted": READ_UNCOMMITTED,
    "read_committed": READ_COMMITTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """The validated options of a consumer."""

    auto_offset_reset: str
    group_id: str | None
    group_instance_id: str | None
    group_remote_assignor: str | None
    max_poll_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_max_bytes: int
    max_poll_records: int | None
    request_timeout_ms: float
    connect_timeout_ms: float
    metadata_max_age_ms: float
    check_crcs: bool
    security_protocol: str
    client_id: str | None
    isolation_level: str
    require_stable: bool

    def __post_init__(self) -> None:
        reset = self.auto_offset_reset
        if not isinstance(reset, str) or reset not in _POLICIES:
            wrong = f"auto_offset_reset={reset!r}"
            raise ConfigurationError(f"{wrong} is not known; use earliest, latest or error")
        self._check_group()
        given.whole("fetch_max_wait_ms", self.fetch_max_wait_ms, 0)
        given.whole("fetch_min_bytes", self.fetch_min_bytes, 1)
        most = given.REQUEST_BYTES_MAX
        given.whole("fetch_max_bytes", self.fetch_max_bytes, 1, most)
        given.whole("max_partition_fetch_bytes", self.max_partition_fetch_bytes, 1, most)
        given.whole("prefetch_max_bytes", self.prefetch_max_bytes, 1, given.INT64_MAX)
        if self.max_poll_records is not None:
            given.whole("max_poll_records", self.max_poll_records, 1)
        given.milliseconds("request_timeout_ms", self.request_timeout_ms)
        given.milliseconds("connect_timeout_ms", self.connect_timeout_ms)
        given.milliseconds("metadata_max_age_ms", self.metadata_max_age_ms)
        given.flag("check_crcs", self.check_crcs)
        given.plaintext(self.security_protocol)
        given.client_id(self.client_id)
        level = self.isolation_level
        if not isinstance(level, str) or level not in _ISOLATION_LEVELS:
            raise ConfigurationError(
                f"isolation_level={level!r} is not known; use {' or '.join(_ISOLATION_LEVELS)}"
            )
        given.flag("require_stable", self.require_stable)

    def _check_group(self) -> None:
        for name in ("group_id", "group_instance_id", "group_remote_assignor"):
            value = getattr(self, name)
            if value is None:
                continue
            given.identifier(name, value)
            if self.group_id is None:
                raise ConfigurationError(f"{name}={value!r} means nothing without group_id")
        given.whole("max_poll_interval_ms", self.max_poll_interval_ms, 1)
        given.flag("enable_auto_commit", self.enable_auto_commit)
        given.milliseconds("auto_commit_interval_ms", self.auto_commit_interval_ms)

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def policy(self) -> int | None:
        return _POLICIES[self.auto_offset_reset]

    @property
    def request_timeout_s(self) -> float:
        return self.request_timeout_ms / 1000

    @property
    def limits(self) -> dict[str, int]:
        """The bounds of fetching, and its isolation level."""
        return {
            "max_wait_ms": self.fetch_max_wait_ms,
            "min_bytes": self.fetch_min_bytes,
            "max_bytes": self.fetch_max_bytes,
            "partition_max_bytes": self.max_partition_fetch_bytes,
            "buffer_bytes": self.prefetch_max_bytes,
            "isolation_level": _ISOLATION_LEVELS[self.isolation_level],
        }
