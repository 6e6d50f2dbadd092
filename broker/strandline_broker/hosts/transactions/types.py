"""The types that transactions and the rooms around them share."""

from __future__ import annotations

from strandline_broker.hosts.common.verifier import Verifier as Verifier
