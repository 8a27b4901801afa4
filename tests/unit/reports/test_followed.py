"""By what `fencepost trace` is asked about an example."""

from typing import Any

import pytest

from harness.telling.example import Example
from reports.told import followed

RECORD = {"topic": "x", "partition": 0, "offset": 7, "value": "v"}
OPERATION = {"op": 1, "name": "w:3"}


@pytest.mark.parametrize(
    ("example", "option"),
    [
        ({"record": RECORD, "input": {"topic": "a", "partition": 1, "offset": 2}}, "--record a/1@2"),
        ({"record": RECORD, "operation": OPERATION}, "--record x/0@7"),
        ({"record": RECORD | {"topic": "a b"}}, "--record 'a b/0@7'"),
        ({"record": RECORD | {"partition": None}, "operation": OPERATION}, "--op w:3"),
        ({"record": RECORD | {"offset": True}, "operation": {"op": 1, "name": None}}, ""),
        ({"transactional_id": "shop-2"}, ""),
    ],
)
def test_an_example_is_followed_by_what_it_names(example: dict[str, Any], option: str) -> None:
    assert followed(Example(example)) == option
