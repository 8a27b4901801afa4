"""Skip a test if the machine lacks something that it needs, or fail it if that is required.

`FENCEPOST_REQUIRE=browser,jdk` lists the requirements; `.ci/run` sets it.
"""

import os
import shutil
from typing import NoReturn

import pytest

REQUIRE = "FENCEPOST_REQUIRE"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def skip_or_fail(need: str, reason: str) -> NoReturn:
    """Skip the test that needs `need` and give the reason. Fail the test if `need` is required."""
    required = {name.strip() for name in os.environ.get(REQUIRE, "").split(",")}
    if need in required:
        pytest.fail(f"{REQUIRE} names {need}, but {reason}", pytrace=False)
    pytest.skip(f"{need}: {reason}")


def browser_path() -> str | None:
    """The path of a Chromium or Chrome on this machine; None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)
