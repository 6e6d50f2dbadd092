"""Fixtures of tests on real processes."""

from support.cluster import cluster, make_cluster
from support.scripted_thread import threaded_cluster

__all__ = ["cluster", "make_cluster", "threaded_cluster"]
