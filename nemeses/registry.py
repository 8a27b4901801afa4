"""The registry of faults: each file of this folder that has a `NEMESIS`, or rows in `NEMESES`, adds its faults."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import nemeses
from harness.runner.nemesis import Nemesis
from nemeses import cases

_FIRST = (
    "kill-broker",
    "pause-broker",
    "kill-txn-coordinator",
    "kill-group-coordinator",
    "partition",
    "kill-worker",
    "pause-worker",
    "kill-instance",
    "pause-instance",
    "pause-instance-unreplaced",
    "kill-postgres",
)
"""The first faults of the registry, in the order of the drawing: so a seed draws the same schedule again."""
_WITHOUT_FAULTS = ("pages", "registry")


def _all() -> Iterator[Nemesis]:
    for file in iter_modules(nemeses.__path__):
        if file.name not in _WITHOUT_FAULTS and not file.ispkg:
            faults = vars(import_module(f"nemeses.{file.name}"))
            yield from faults.get("NEMESES", ())
            yield from (faults["NEMESIS"],) if "NEMESIS" in faults else ()


_FAULTS = tuple(_all())
_BY_NAME = {nemesis.name: nemesis for nemesis in _FAULTS}
assert len(_BY_NAME) == len(_FAULTS), "two faults have the same name"

NEMESES: dict[str, Nemesis] = {
    name: _BY_NAME[name]
    for name in (*_FIRST, *(name for name in _BY_NAME if name not in (*_FIRST, cases.NAME)))
}

HIDDEN: dict[str, Nemesis] = {cases.NEMESIS.name: cases.NEMESIS}
"""The faults that only commands plan, and that a user cannot name."""
