"""The versions and settings in which two sides differ. A secret is never shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.common.wording import printable
from reports.compare.pairs import Runs
from reports.compare.values import NOT_KNOWN, ComparedRow
from reports.settings import setting_text

NOT_SET = "not set"
OF_WORKLOAD = "workload."
ANOTHER = " (another value)"
_MISSING = object()


def version_rows(a: Runs, b: Runs) -> Iterator[ComparedRow]:
    """Yield a row for each version that differs."""
    known = [[run.versions for run in runs if run.versions] for runs in (a, b)]
    if not all(known):
        yield ComparedRow("all versions", _known(known[0]), _known(known[1]))
        return
    for name in sorted({name for side in known for versions in side for name in versions}):
        texts = [
            sorted({printable(versions[name]) if name in versions else NOT_KNOWN for versions in side})
            for side in known
        ]
        if texts[0] != texts[1]:
            yield ComparedRow(printable(name, 60), ", ".join(texts[0]), ", ".join(texts[1]))


def setting_rows(a: Runs, b: Runs, are_suites: bool) -> Iterator[ComparedRow]:
    """Yield a row for each setting that differs. Seeds of suites are left out: their runs are paired by them."""
    sides = [[run.settings for run in runs] for runs in (a, b)]
    with_workload = [[settings for settings in side if _has_workload(settings)] for side in sides]
    names = dict.fromkeys(name for side in sides for settings in side for name in settings)
    for name in names:
        if are_suites and name == "seed":
            continue
        of_workload = name.startswith(OF_WORKLOAD)
        if of_workload and not all(with_workload):
            continue
        row = _setting_row(name, *(with_workload if of_workload else sides))
        if row:
            yield row
    if any(with_workload) and not all(with_workload):
        yield ComparedRow("settings of the workload", _known(with_workload[0]), _known(with_workload[1]))


def _known(values: Sequence[object]) -> str:
    return "known" if values else NOT_KNOWN


def _has_workload(settings: Mapping[str, Any]) -> bool:
    return any(name.startswith(OF_WORKLOAD) for name in settings)


def _setting_row(name: str, a: list[Mapping[str, Any]], b: list[Mapping[str, Any]]) -> ComparedRow | None:
    """Return the row of a setting. None: its values are the same on both sides.

    Values are compared as they are stored, because two secrets, or two long texts, may look the same when shown.
    """
    values = [
        {repr(value): value for value in (settings.get(name, _MISSING) for settings in side)}
        for side in (a, b)
    ]
    if values[0].keys() == values[1].keys():
        return None
    text_a, text_b = (
        ", ".join(
            sorted({NOT_SET if value is _MISSING else setting_text(name, value) for value in side.values()})
        )
        for side in values
    )
    return ComparedRow(printable(name, 100), text_a, text_b + (ANOTHER if text_a == text_b else ""))
