"""The settings of an object store, by delta-rs' own names: `AWS_ENDPOINT_URL` and others.

They are environment variables, so that delta-rs, obstore and the Python workers of Spark find the
same ones. A pipeline's file may give those that are no secrets. No message shows a secret.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import EnvironmentProblem, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARED: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_ALLOW_HTTP",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_UNSIGNED_PAYLOAD",
    "AWS_SKIP_SIGNATURE",
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_REQUEST_PAYER",
)
"""Settings that a file may have, and that a job hands to its workers on other machines."""
_FALSE: Final = ("", "0", "false", "no", "n", "off")


def parsed(given: Mapping[str, str | bool | int]) -> dict[str, str]:
    """Returns the settings of a file by their names in the environment. Raises OptionError."""
    out = {}
    for name, value in given.items():
        whole = name.upper()
        if whole in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            raise OptionError(
                f"[storage] {name}: a file is no place for credentials; set the environment"
                f" variable {whole} where the job runs"
            )
        if whole not in SHARED:
            near = get_close_matches(whole, SHARED, n=1)
            hint = f"; did you mean {near[0].lower()}?" if near else f": give {', '.join(SHARED)}"
            raise OptionError(f"[storage] {name} is not supported{hint}")
        out[whole] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def use(settings: Mapping[str, str]) -> None:
    """Makes this process and those that it starts use the settings."""
    os.environ.update(settings)


def shared() -> dict[str, str]:
    """Returns the settings that workers on other machines need; their credentials are their own."""
    return {name: os.environ[name] for name in SHARED if name in os.environ}


def is_set(name: str) -> bool:
    """True if the variable is there, and says yes."""
    return os.environ.get(name, "").lower() not in _FALSE


def check() -> None:
    """Raises EnvironmentProblem for settings that cannot work, or with which two writers could
    commit at once.

    An entry of a table's log is made by a conditional write. Another way to make one would not see
    such an entry.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint.startswith("http://") and not is_set("AWS_ALLOW_HTTP"):
        raise EnvironmentProblem(
            f"AWS_ENDPOINT_URL is {endpoint}, without encryption: give https://, or set"
            " AWS_ALLOW_HTTP=true"
        )
    if os.environ.get("AWS_CONDITIONAL_PUT", "etag").lower() != "etag":
        raise EnvironmentProblem(
            "AWS_CONDITIONAL_PUT is set, and not to etag: entries of a table's log are made by a"
            " conditional write (If-None-Match); unset it"
        )
    if os.environ.get("AWS_S3_LOCKING_PROVIDER"):
        raise EnvironmentProblem(
            "AWS_S3_LOCKING_PROVIDER is set: the jobs take no lock, but make entries of a table's"
            " log by a conditional write, and a writer with a lock would not see them; unset it for"
            " every writer of these tables"
        )
    if is_set("AWS_S3_ALLOW_UNSAFE_RENAME"):
        raise EnvironmentProblem(
            "AWS_S3_ALLOW_UNSAFE_RENAME is set: with it two writers could both make an entry of a"
            " table's log; unset it"
        )
