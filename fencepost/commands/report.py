"""`fencepost report`."""

import click

from fencepost.stores import one_run
from harness.errors import ExitStatus
from harness.verdict import Verdict


@click.command("report")
@click.argument("store", metavar="STORE")
def command(store: str) -> ExitStatus:
    """Draw a stored run's report again, from its verdict and its tables.

    \b
    Example:
      fencepost report store/latest
    """
    folder = one_run(store)
    verdict = Verdict.load(folder / "verdict.json")

    from reports.html import draw
    from reports.junit import junit

    draw(folder, verdict)
    (folder / "junit.xml").write_text(junit([(verdict, 0.0)]), encoding="utf-8")
    print(folder / "report.html")
    return ExitStatus.VALID
