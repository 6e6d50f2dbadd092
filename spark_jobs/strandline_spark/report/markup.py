"""HTML as a tree. Text and attributes are escaped when the tree is written. So no value of a
record, a topic or a table can become markup.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Final

Element = ET.Element
Content = str | Element
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that HTML does not allow, or that UTF-8 has no bytes for. Line feeds and tabs stay."""


def tag(name: str, /, *content: Content, **attributes: str | float | None) -> Element:
    """Returns an element. A trailing underscore of an attribute's name is dropped (`class_`), an
    inner one becomes a hyphen (`stroke_width`), and an attribute that is None is left out.
    """
    element = Element(name)
    for key, value in attributes.items():
        if value is not None:
            element.set(key.rstrip("_").replace("_", "-"), _clean(_plain(value)))
    for one in content:
        append(element, one)
    return element


def append(element: Element, content: Content) -> None:
    """Appends text or an element to the content of `element`."""
    if isinstance(content, Element):
        element.append(content)
    elif len(element) == 0:
        element.text = (element.text or "") + _clean(content)
    else:
        element[-1].tail = (element[-1].tail or "") + _clean(content)


def to_html(root: Element) -> str:
    """Returns the document, with its type."""
    return "<!DOCTYPE html>\n" + ET.tostring(root, encoding="unicode", method="html") + "\n"


def _plain(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
