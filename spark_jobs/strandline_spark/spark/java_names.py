"""Names of Java classes that Python uses: each is looked up in the JVM once.

py4j asks the JVM again at each use of `jvm.org.apache.spark.sql.functions.col`, for `org`, for
`org.apache`, and so on, and for the method. For a package the JVM searches each of Spark's 280 jars
for a class of that name. In a session of small queries that takes a tenth of the JVM's processor
time.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import (  # type: ignore[import-untyped]
    JavaClass,
    JavaMember,
    JavaPackage,
    JVMView,
)


def keep_names(jvm: JVMView) -> None:
    """Makes the view of a JVM, and packages and classes found through it, keep what they found.

    A name that starts with a capital letter and was no class so far is looked up again: a jar that
    is added later may have it. The value of a static field is read at each use.
    """
    jvm.__class__ = _View


class _View(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _kept(self, name, super().__getattr__(name))


class _Package(JavaPackage):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _kept(self, name, super().__getattr__(name))


class _Class(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if type(found) is JavaMember:
            self.__dict__[name] = found
        return found


def _kept(place: JVMView | JavaPackage, name: str, found: Any) -> Any:
    if type(found) is JavaClass:
        found.__class__ = _Class
    elif type(found) is JavaPackage:
        found.__class__ = _Package
        if name[:1].isupper():
            return found
    else:
        return found
    place.__dict__[name] = found
    return found
