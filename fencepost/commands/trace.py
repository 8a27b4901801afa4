"""`fencepost trace`."""

import re

import click

from fencepost.checks.evidence import require_tables, wall_ms_at_zero
from fencepost.checks.run_folders import find_run
from fencepost.commands import output
from harness.common.errors import ExitStatus, UsageError
from harness.record.table_reader import RunTables
from reports.pictures.trace_lines import trace_lines
from reports.story import scopes
from reports.story.run import Story

_RECORD = re.compile(r"(?P<topic>[^/@]+)/(?P<partition>\d{1,9})@(?P<offset>\d{1,18})")


@click.command("trace", short_help="Show what happened to one record or operation.")
@click.argument("store", metavar="STORE")
@click.option("--op", metavar="NAME", help="an operation, such as shop-2.1:10")
@click.option("--record", metavar="TOPIC/P@OFFSET", help="a record, input or output, such as invoices/2@33")
@click.option("--id", "transactional_id", metavar="ID", help="a transactional id, such as shop-2")
@click.option(
    "--fault",
    type=int,
    metavar="N",
    help="number of a fault: 1 is the first that began (verdict.json and the report list the faults)",
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
    """Show what happened to one record, one operation or one transactional id, or around one fault.

    Each line is one step: the time, the source, and what happened. The steps come from the journals, the transaction
    log, the offsets of the group, the markers, the readers and the faults of a stored run. No Spark is needed. For your
    own pipeline (run --pipeline), the steps come from the broker logs: which producer wrote a record, in which
    transaction, and the inputs or outputs that belong to it.

    Times are in seconds since the run began to start its cluster. Two other outputs count differently: the plan of a
    run counts from the first input, and progress lines count from the start of the command.

    \b
    Example:
      fencepost trace store/latest --record invoices/2@33
      fencepost trace store/latest --op shop-2.1:10
      fencepost trace store/latest --fault 1
    """
    if sum(subject is not None for subject in (op, record, transactional_id, fault)) != 1:
        raise UsageError("it is not clear what to trace: use exactly one of --op, --record, --id and --fault")
    argument = _RECORD.fullmatch(record) if record is not None else None
    if record is not None and argument is None:
        raise UsageError(
            f"{record} is not a record: name it as TOPIC/PARTITION@OFFSET, such as invoices/2@33"
        )
    folder = find_run(store)

    zero_ms = wall_ms_at_zero(folder)
    require_tables(folder)
    story = Story(RunTables(folder, zero_ms))
    if argument is not None:
        partition, offset = int(argument["partition"]), int(argument["offset"])
        traced = scopes.of_record(story, argument["topic"], partition, offset)
    elif op is not None:
        traced = scopes.of_operation(story, op)
    elif transactional_id is not None:
        traced = scopes.of_id(story, transactional_id)
    else:
        traced = scopes.of_fault(story, int(fault or 0))
    if not traced:
        raise UsageError(f"{folder} has no evidence of it: name another record, operation, id or fault")
    if as_json:
        output.print_json([point.as_json() for point in traced], indent=1)
    else:
        print(*trace_lines(traced), sep="\n")
    return ExitStatus.VALID
