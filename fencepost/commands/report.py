"""`fencepost report`."""

import click

from fencepost.checks.check_stored_runs import open_evidence
from fencepost.checks.run_folders import find_run
from fencepost.checks.run_report import write_run_report
from harness.common.errors import ExitStatus, UnreadableInput
from harness.record.run_tables import require_verdict
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import Validity, Verdict


@click.command("report", short_help="Write the report of a stored run again.")
@click.argument("store", metavar="STORE")
def command(store: str) -> ExitStatus:
    """Write the report of a stored run again, from its verdict and its tables.

    This does not check the run again. To do that, use `fencepost check --update`.

    \b
    Example:
      fencepost report store/latest
    """
    folder = find_run(store)
    require_verdict(folder)
    verdict = Verdict.load(folder / "verdict.json")

    evidence = open_evidence(store, folder)
    if verdict.validity is Validity.VALID and evidence.had_log and not (folder / "log").is_dir():
        raise UnreadableInput(
            f"{folder / 'log'} was removed after the run was checked: `fencepost check --update {folder}` checks "
            "the remaining evidence"
        )

    metadata = folder / "metadata.json"
    phases = RunMetadata.load(metadata).phases if metadata.exists() else ()

    write_run_report(folder, verdict, phases[-1].end_s if phases else 0.0)
    print(folder / "report.html")
    return ExitStatus.VALID
