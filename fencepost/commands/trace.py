"""`fencepost trace`."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fencepost.checks.run_folders import find_run
from harness.common.errors import ExitStatus, UnreadableInput, UsageError
from harness.record.run_tables import PLAN
from harness.results.wording import printable
from harness.settings.run_file import StoredPlan

if TYPE_CHECKING:
    from reports.trace.step import TraceStep

_RECORD = re.compile(r"(?P<topic>[^/@]+)/(?P<partition>\d{1,9})@(?P<offset>\d{1,18})")
MOST_WORDS = 600
"""Characters of one step."""


@click.command("trace", short_help="Tell what happened to one record or operation.")
@click.argument("store", metavar="STORE")
@click.option("--op", metavar="NAME", help="an operation, such as shop-2.1:10")
@click.option("--record", metavar="TOPIC/P@OFFSET", help="a record, input or output, such as invoices/2@33")
@click.option("--id", "transactional_id", metavar="ID", help="a transactional id, such as shop-2")
@click.option(
    "--fault",
    type=int,
    metavar="N",
    help="a fault of the run: 1 is the first that began (verdict.json and the report list them)",
)
@click.option("--json", "as_json", is_flag=True, help="print a list of objects: time_ns, who, what, source")
def command(
    store: str,
    op: str | None,
    record: str | None,
    transactional_id: str | None,
    fault: int | None,
    as_json: bool,
) -> ExitStatus:
    """Tell what happened to one record, one operation, one transactional id, or around one fault.

    Each line is one step: when, who says so, and what. It joins the journals, the transaction log, the group's
    offsets, the markers, the readers and the faults of a stored run, and starts no Spark. Of a program of your own
    (run --pipeline) the brokers' logs tell which producer wrote a record, in which transaction, and which inputs or
    outputs have to do with it. Times are seconds since the run began to start its cluster. A run's plan counts from the
    first input, and the progress lines that it prints without a terminal count from the start of the command.

    \b
    Example:
      fencepost trace store/latest --record invoices/2@33
      fencepost trace store/latest --op shop-2.1:10
      fencepost trace store/latest --fault 1
    """
    if sum(one is not None for one in (op, record, transactional_id, fault)) != 1:
        raise UsageError("say what to trace, by one of --op, --record, --id and --fault")
    place = _RECORD.fullmatch(record) if record is not None else None
    if record is not None and place is None:
        raise UsageError(f"a record is named TOPIC/PARTITION@OFFSET, such as invoices/2@33, and not {record}")
    folder = find_run(store)
    plan = StoredPlan.load(folder / PLAN)
    zero_ms = plan.run.get("wall_ms_at_zero")
    if not isinstance(zero_ms, int | float):
        raise UnreadableInput(
            f"{folder / PLAN} does not say when the run began: [run] wall_ms_at_zero is missing"
        )
    if not (folder / "history" / "ops.parquet").is_file():
        from fencepost.checks.evidence import require_evidence

        require_evidence(folder)
        raise UnreadableInput(f"{folder} has no tables yet: `fencepost check {folder}` makes them")

    from reports.trace import by_logs, steps
    from reports.trace.faults import of_fault
    from reports.trace.stored import StoredTables

    tables = StoredTables(folder, zero_ms)
    if place is not None:
        of_record = by_logs.of_record if tables.without_journals else steps.of_record
        told = of_record(tables, place["topic"], int(place["partition"]), int(place["offset"]))
    elif op is not None:
        told = steps.of_operation(tables, op)
    elif transactional_id is not None:
        told = (by_logs if tables.without_journals else steps).of_id(tables, transactional_id)
    else:
        told = (by_logs.of_fault if tables.without_journals else of_fault)(tables, int(fault or 0))
    if not told:
        raise UsageError(
            f"nobody tells anything of that in {folder}: name another record, operation, id or fault"
        )
    _tell(told, as_json)
    return ExitStatus.VALID


def _tell(told: Sequence["TraceStep"], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(step) for step in told], ensure_ascii=False, indent=1))
        return
    width = max((len(step.who) for step in told), default=0)
    for step in told:
        time = "          " if step.time_ns is None else f"{step.time_ns / 1e9:8.3f} s"
        print(f"{time}  {printable(step.who, 80):<{width}}  {printable(step.what, MOST_WORDS)}")
