"""The message of a descriptor file, which protoc writes with `--descriptor_set_out`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_spark.parsing.settings import ParseSettings

_HOW: Final = "write it with protoc --include_imports --descriptor_set_out=FILE"
_SHOWN: Final = 10
"""Limit of names in a message."""


class DescriptorProblem(ValueError):
    """An unusable descriptor; `key` is the setting, `column` the column if it is about one."""

    def __init__(self, key: str, what: str, column: str | None = None) -> None:
        super().__init__(what)
        self.key = key
        self.column = column


@dataclass(frozen=True, slots=True)
class MessageType:
    """The type of the values."""

    descriptor: Any
    make: Any
    """The class of its messages."""
    place: tuple[int, ...]
    """The message's place in its file, from the outermost message to the innermost."""


def descriptor_text(data: bytes, message: str | None) -> str:
    """Returns the part of a descriptor file that the message needs, as text for the settings.
    Comments of the source do not count. Raises DescriptorProblem if the file is no descriptor.
    """
    found = _files(data)
    by_name = {file.name: file for file in found.file}
    home = next((file for file in found.file if message in list(_messages(file))), None)
    if home is not None:
        wanted, left = {home.name}, [home]
        while left:
            new = [name for name in left.pop().dependency if name not in wanted and name in by_name]
            wanted.update(new)
            left += [by_name[name] for name in new]
        kept = [file for file in found.file if file.name in wanted]
        found = descriptor_pb2.FileDescriptorSet(file=kept)
    for file in found.file:
        file.ClearField("source_code_info")
    return base64.b64encode(found.SerializeToString(deterministic=True)).decode()


def message_type(settings: ParseSettings) -> MessageType:
    """Returns the type of the settings' message. Raises DescriptorProblem."""
    name = settings.message or ""
    try:
        data = base64.b64decode(settings.descriptor or "", validate=True)
    except ValueError as why:
        raise DescriptorProblem("descriptor", f"is not base64 ({why})") from why
    files = _files(data)
    pool = descriptor_pool.DescriptorPool()
    left = list(files.file)
    while left:
        # A file may stand before one that it imports.
        waiting, error = [], None
        for file in left:
            try:
                pool.Add(file)
            except TypeError as why:
                waiting.append(file)
                error = why
        if error is not None and len(waiting) == len(left):
            raise DescriptorProblem("descriptor", _not_built(left, files, error)) from error
        left = waiting
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError as why:
        # The file that protoc was given comes last, behind those that it imports.
        known = [one for file in reversed(files.file) for one in sorted(_messages(file))]
        more = "" if len(known) <= _SHOWN else f" and {len(known) - _SHOWN} more"
        raise DescriptorProblem(
            "message",
            f"{name!r} is no message of the descriptor, which has"
            f" {', '.join(known[:_SHOWN]) or 'none'}{more}: give its full name",
        ) from why
    return MessageType(descriptor, message_factory.GetMessageClass(descriptor), _place(descriptor))


def _files(data: bytes) -> descriptor_pb2.FileDescriptorSet:
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError as why:
        raise DescriptorProblem("descriptor", f"is no FileDescriptorSet: {_HOW}") from why
    # A name that is not UTF-8 is bytes.
    names = [
        name
        for file in found.file
        for name in (file.name, file.package, *file.dependency, *_messages(file))
    ]
    has_names = all(file.name for file in found.file)
    if not found.file or not has_names or not all(isinstance(name, str) for name in names):
        raise DescriptorProblem("descriptor", f"is no FileDescriptorSet: {_HOW}")
    return found


def _not_built(left: list[Any], files: descriptor_pb2.FileDescriptorSet, error: TypeError) -> str:
    there = {file.name for file in files.file}
    lacking = sorted({name for file in left for name in file.dependency if name not in there})
    if lacking:
        return f"it imports {', '.join(lacking)}, which it has not: {_HOW}"
    return f"{left[0].name} cannot be read ({error}): {_HOW}"


def _messages(file: Any) -> Iterator[str]:
    """Yields the full names of all messages in a file."""
    prefix = f"{file.package}." if file.package else ""
    left = [(prefix, one) for one in file.message_type]
    while left:
        before, one = left.pop()
        if not one.options.map_entry:
            yield f"{before}{one.name}" if isinstance(one.name, str) else one.name
        left += [(f"{before}{one.name}.", inner) for inner in one.nested_type]


def _place(descriptor: Any) -> tuple[int, ...]:
    outer = descriptor.containing_type
    if outer is None:
        return (list(descriptor.file.message_types_by_name).index(descriptor.name),)
    own = [one.name for one in outer.nested_types].index(descriptor.name)
    return (*_place(outer), own)
