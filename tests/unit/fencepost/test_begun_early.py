"""While final readers read, tables are begun; not after a large run, whose readers take the whole machine."""

from unittest import mock

import pytest

from fencepost.running import _early
from fencepost.spark import LARGE_INPUTS
from harness.settings.options import Options


@pytest.mark.parametrize(("inputs", "begun"), [(LARGE_INPUTS, 1), (LARGE_INPUTS + 10, 0)])
def test_of_small_runs_alone(inputs: int, begun: int) -> None:
    tables = mock.Mock()
    _early(Options(rate=inputs / 10, time_limit_s=10.0), tables)()
    assert tables.begin.call_count == begun
