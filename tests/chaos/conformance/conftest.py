"""Let the assertions of the conformance checks show their values when they fail, as those of tests do."""

import pytest

pytest.register_assert_rewrite("tests.support.conformance")
