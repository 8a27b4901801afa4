"""What a test needs of the machine: without it the test is skipped, or fails where it is required.

`FENCEPOST_REQUIRE=browser,jdk` names what must be there; `.ci/run` sets it.
"""

import os
import shutil
from typing import NoReturn

import pytest

REQUIRE = "FENCEPOST_REQUIRE"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def lacking(need: str, words: str) -> NoReturn:
    """Skip the test that needs `need`, and say why; fail it if `need` is required."""
    required = {name.strip() for name in os.environ.get(REQUIRE, "").split(",")}
    if need in required:
        pytest.fail(f"{REQUIRE} names {need}, but {words}", pytrace=False)
    pytest.skip(f"{need}: {words}")


def browser_path() -> str | None:
    """The machine's chromium, under any of its names."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)
