"""The fixtures of real clusters; pytest finds fixtures by the names of this module."""

from support.cluster import make_cluster

__all__ = ["make_cluster"]
