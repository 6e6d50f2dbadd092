"""Requests that the controller decides: the one file of this package that builds protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from strandline_proto.errors import WireError


class ToController(Protocol):
    """A broker's connection to the controller."""

    @property
    def stub(self) -> Any:
        """The calls of the controller's service."""
        ...

    def failure(self, error: Any) -> WireError:
        """Returns the error for a client whose request could not be forwarded."""
        ...
