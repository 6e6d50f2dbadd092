"""Texts of the code, cut and set for the reference documents."""

import re
from inspect import cleandoc

GENERATED = "Made from the code by `make docs`; change it there.\n"
_END = re.compile(r"[.!?](?=\s)(?<!e\.g\.)(?<!i\.e\.)")


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring's first paragraph, on one line."""
    paragraph = " ".join(cleandoc(docstring or "").split("\n\n", 1)[0].split())
    end = _END.search(paragraph)
    return paragraph if end is None else paragraph[: end.end()]
