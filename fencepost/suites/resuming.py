"""The plan of a suite that began before: as it was stored, or by its file as it is now."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fencepost import registry
from fencepost.suites import foreseen as failures
from fencepost.suites.matrix import set_now, told
from fencepost.suites.plan import Asked, Planned
from harness.errors import UsageError
from harness.names import on_one_line
from harness.settings.options import from_toml
from harness.suite import Cell, Suite


def again(stored: Suite, asked: Asked) -> Planned:
    """The plan of a suite that began before. Raises `UsageError` where it held secrets, which are not stored."""
    options = {}
    for cell in stored.cells:
        try:
            options[cell.name] = from_toml(cell.options).validated(registry.known())
        except UsageError as error:
            raise UsageError(
                f'cell "{cell.name}": {error} (name the suite file as well: `fencepost suite FILE '
                "--resume FOLDER`)"
            ) from None
    foreseen = failures.read(stored.known, stored.expected, registry.anomalies())
    return Planned(replace(stored, judge=asked.judge or stored.judge), options, foreseen)


def asked_again(stored: Suite, asked: Asked) -> Asked:
    """What the command says, beside what it said when the suite began. Raises `UsageError` for a secret in a `--set`
    that is not said again.
    """
    sets = [*([stored.sets] if stored.sets else []), *asked.sets]
    if withheld := set_now(sets).withheld:
        raise UsageError(
            f"this suite began with a secret in --set {withheld[0]}, which is not stored: give it again"
        )
    return replace(asked, seed=stored.seed, name=stored.name, judge=asked.judge or stored.judge, sets=sets)


def going_on(stored: Suite, planned: Planned) -> Planned:
    """A suite that began before, with the options of its file as it is now, secrets as well.

    Raises `UsageError` where the file's cells are no longer those of the suite.
    """
    if changed := next(_changed(stored.cells, planned.suite.cells), ""):
        secret = any(from_toml(cell.options).withheld for cell in stored.cells)
        old = (
            ""
            if secret
            else ", or go on with the old cells: `fencepost suite --resume FOLDER` without the file"
        )
        raise UsageError(
            f"{planned.suite.file} or --set has changed since the suite began: {changed}; begin a new suite{old}"
        )
    suite = replace(
        stored, judge=planned.suite.judge, known=planned.suite.known, expected=planned.suite.expected
    )
    return replace(planned, suite=suite)


def _changed(before: Sequence[Cell], now: Sequence[Cell]) -> Iterator[str]:
    """Where two plans differ, in words."""
    old, new = ({cell.name: cell.options for cell in cells} for cells in (before, now))
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            yield f'there is no cell "{name}" any more'
        elif name not in old:
            yield f'the cell "{name}" is new'
        else:
            keys = dict.fromkeys((*old[name], *new[name]))
            for key in (key for key in keys if old[name].get(key) != new[name].get(key)):
                was, is_now = (on_one_line(str(told(key, cells[name].get(key)))) for cells in (old, new))
                yield f'{key} of the cell "{name}" was {was}, and is {is_now} now'
