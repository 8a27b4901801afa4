"""The checks say what they saw where one fails, as tests do."""

import pytest

pytest.register_assert_rewrite("tests.support.conformance")
