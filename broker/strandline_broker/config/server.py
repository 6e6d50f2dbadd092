"""The configuration keys that both servers have."""

from __future__ import annotations

from dataclasses import dataclass

from strandline_broker.config.addresses import HostPort, Listener, host_ports, listeners
from strandline_broker.config.key import declared as _key
from strandline_broker.config.parsers import directories, ms
from strandline_broker.core.config_values import integer, one_of
from strandline_broker.core.topic_config import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The keys that both servers have."""

    node_id: int = _key(integer(0, INT32_MAX), None, "The server's number, unique in the cluster.")
    listeners: tuple[Listener, ...] = _key(
        listeners,
        None,
        "Addresses on which the server listens: NAME://HOST:PORT, separated by commas.",
    )
    log_dirs: tuple[str, ...] = _key(
        directories,
        None,
        "The data directories, separated by commas; of a controller exactly one.",
    )
    log_format: str = _key(
        one_of("console", "json"), "console", "Form of the log lines on standard error."
    )
    log_level: str = _key(
        one_of("debug", "info", "warning", "error"), "info", "The least severe log line written."
    )
    metrics_listeners: tuple[HostPort, ...] = _key(
        host_ports,
        "",
        "HOST:PORT of the HTTP listener: /metrics for Prometheus, /healthz and /readyz for probes;"
        " empty: none.",
    )
    metrics_event_loop_interval_ms: int = _key(
        ms(), "100", "Time between two measurements of the event loop's delay."
    )
    explicit: frozenset[str] = frozenset()
    """The keys that were set, as opposed to defaulted."""

    @property
    def log_dir(self) -> str:
        return self.log_dirs[0]
