"""`fencepost list`."""

from collections.abc import Mapping

import click

from fencepost import registry
from harness.errors import ExitStatus
from harness.names import check_name

KINDS = ("workloads", "nemeses", "checkers", "clusters", "anomalies", "defects")
SINGULAR = {"nemeses": "nemesis", "anomalies": "anomaly"}


@click.command("list")
@click.argument("kind", metavar="|".join(KINDS))
@click.argument("names", metavar="[NAME...]", nargs=-1)
def command(kind: str, names: tuple[str, ...]) -> ExitStatus:
    """List what there is of one kind, or of that only what is named; of an anomaly that is named, all.

    \b
    Example:
      fencepost list nemeses
      fencepost list anomalies lost-input
    """
    kind = {"faults": "nemeses"}.get(kind, kind)
    check_name("kind of thing to list", kind, KINDS)
    entries = _entries(kind)
    for name in names:
        check_name(SINGULAR.get(kind, kind.removesuffix("s")), name, entries)
    if kind == "anomalies" and names:
        print("\n".join(map(registry.anomaly_page, names)), end="")
        return ExitStatus.VALID
    entries = {name: entries[name] for name in names or entries}
    width = max(map(len, entries), default=0)
    for name, summary in entries.items():
        first, *more = summary.splitlines()
        print(f"{name:<{width}}  {first}")
        for line in more:
            print(f"{'':<{width}}  {line}")
    return ExitStatus.VALID


def _entries(kind: str) -> Mapping[str, str]:
    if kind == "clusters":
        return registry.clusters()
    if kind == "checkers":
        return registry.checkers()
    if kind == "anomalies":
        return registry.anomalies()
    if kind == "defects":
        return {
            name: f"{defect.summary}\nmay cause {', '.join(sorted(defect.anomalies))}"
            for name, defect in registry.defects().items()
        }
    things = registry.workloads() if kind == "workloads" else registry.nemeses()
    return {name: thing.summary for name, thing in things.items()}
