"""`fencepost list`."""

from collections.abc import Mapping

import click

from fencepost import registry
from harness.errors import ExitStatus
from harness.names import check_name

KINDS = ("workloads", "nemeses", "checkers", "clusters", "anomalies", "defects")


@click.command("list")
@click.argument("kind", metavar="|".join(KINDS))
def command(kind: str) -> ExitStatus:
    """List what there is of one kind.

    \b
    Example:
      fencepost list nemeses
      fencepost list defects
    """
    kind = {"faults": "nemeses"}.get(kind, kind)
    check_name("kind of thing to list", kind, KINDS)
    entries = _entries(kind)
    width = max(map(len, entries), default=0)
    for name, summary in entries.items():
        first, *more = summary.splitlines()
        print(f"{name:<{width}}  {first}")
        for line in more:
            print(f"{'':<{width}}  {line}")
    return ExitStatus.VALID


def _entries(kind: str) -> Mapping[str, str]:
    if kind == "clusters":
        return registry.CLUSTERS
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
