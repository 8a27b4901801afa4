"""Skip a test if the machine lacks something that it needs, or fail it if that is required.

`FENCEPOST_REQUIRE=browser,jdk` lists the requirements; `.ci/run` sets it.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

REQUIRE = "FENCEPOST_REQUIRE"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TRACE_PROCESSORS = ("trace_processor_shell", "trace_processor")


def skip_or_fail(need: str, reason: str) -> NoReturn:
    """Skip the test that needs `need` and give the reason. Fail the test if `need` is required."""
    required = {name.strip() for name in os.environ.get(REQUIRE, "").split(",")}
    if need in required:
        pytest.fail(f"{REQUIRE} names {need}, but {reason}", pytrace=False)
    pytest.skip(f"{need}: {reason}")


def browser_path() -> str | None:
    """The path of a Chromium or Chrome on this machine; None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def trace_processor() -> Callable[[Path, str], list[str]] | None:
    """A function that asks Perfetto's trace processor a query about a trace, and returns the rows; None if this machine
    has no trace processor.
    """
    command = next(filter(None, map(shutil.which, TRACE_PROCESSORS)), None)
    if command is None:
        return None

    def query_trace(trace: Path, query: str) -> list[str]:
        file = trace.with_suffix(".sql")
        file.write_text(f"{query};")
        arguments = [command, "--query-file", str(file), str(trace)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[1:]  # without the names of the columns

    return query_trace
