"""Descriptor files of .proto texts, as protoc writes them."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import grpc_tools  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

WELL_KNOWN = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")


def descriptor_set(*flags: str, **files: str) -> bytes:
    """The set of these files, `name="syntax = ..."`, by protoc with `flags`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            with open(os.path.join(folder, f"{name}.proto"), "w", encoding="utf-8") as file:
                file.write(text)
        out = os.path.join(folder, "out")
        command = ["protoc", f"-I{folder}", f"-I{WELL_KNOWN}", f"--descriptor_set_out={out}"]
        names = [f"{name}.proto" for name in files]
        assert protoc.main([*command, *flags, *names]) == 0, files
        with open(out, "rb") as file:
            return file.read()


def message_class(data: bytes, name: str) -> Any:
    """The class of a message of the set."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
