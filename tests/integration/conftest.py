"""Fixtures of tests on real processes."""

from support.cluster import cluster, make_cluster

__all__ = ["cluster", "make_cluster"]
