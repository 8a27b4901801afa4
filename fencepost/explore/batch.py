"""One batch of an exploration: a run of the workload explore whose only fault are its cases."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from msgspec import structs

from fencepost import registry
from fencepost.runs.carry_out import FinishedRun, perform_run
from harness.common.progress import Progress
from harness.protocol.cases import Case, encode_cases
from harness.protocol.rules import ProtocolRule
from harness.runner.interrupt import Interrupt
from harness.runner.nemesis import PlannedFault, Target
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from workloads.explore import EXPLORE, INPUTS, TASKS
from workloads.model.workload import pinned_id

FAULT = "cases"
FEED_S = 2.0
"""The time in which the inputs of a batch are written."""
TXN_TIMEOUT_S = 5.0
"""Longer than any case keeps a transaction open on purpose, and short enough to end one that its producer has left."""


def numbered(cases: Sequence[Case]) -> list[Case]:
    """Give each case a partition, and let its rule select the messages of the transactional id of this partition."""
    return [
        structs.replace(case, number=number, rule=case.rule and _of_id(case.rule, pinned_id(TASKS, number)))
        for number, case in enumerate(cases)
    ]


def _of_id(rule: ProtocolRule, transactional_id: str) -> ProtocolRule:
    return structs.replace(
        rule,
        name=f"{rule.name}-{transactional_id}",
        select=structs.replace(rule.select, transactional_id=transactional_id),
    )


def options_of_batch(options: Options, cases: int, name: str) -> Options:
    """Return the options of the run of a batch."""
    return replace(
        options,
        workload=EXPLORE.name,
        name=name,
        brokers=1,
        partitions=cases,
        nemesis=("none",),
        rate=INPUTS * cases / FEED_S,
        time_limit_s=FEED_S,
        abort_share=0.0,
        txn_timeout_s=TXN_TIMEOUT_S,
    )


def run_batch(
    options: Options, cases: Sequence[Case], interrupt: Interrupt, progress: Progress
) -> FinishedRun:
    """Carry out numbered cases in one run. This checks nothing."""
    schedule = Schedule((PlannedFault(FAULT, Target(FAULT), 0.0, 0.0, {FAULT: encode_cases(list(cases))}),))
    workload = registry.pipeline_of(options)
    with ExitStack() as stack:
        return perform_run(options, progress, "fencepost explore", workload, schedule, interrupt, stack, None)
