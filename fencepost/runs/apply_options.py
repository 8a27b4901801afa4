"""Apply options to a pipeline: record sizes, time-outs, goals for unusual transactions, and churn of workers."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from harness.common.errors import UsageError
from harness.model.pipeline import PipelineSpec
from harness.model.promises import Goal
from harness.model.vocabulary import Exercise
from harness.runner import churn
from harness.runner.churn import PlannedChange
from harness.runner.nemesis import PlannedFault
from harness.settings.options import Options

if TYPE_CHECKING:
    from workloads.model.workload import Workload

LONGER = "a longer --time-limit or a higher --rate helps"


def txn_timeout_ms(options: Options) -> int:
    """The transaction time-out of the pipeline."""
    return round(1000 * options.txn_timeout_s)


def empty_share(options: Options, workload: "Workload") -> float:
    """The share of batches before which a worker commits an empty transaction."""
    return workload.empty_share if options.empty_share is None else options.empty_share


def draw_churn(
    options: Options, spec: PipelineSpec, planned_faults: Sequence[PlannedFault]
) -> tuple[PlannedChange, ...]:
    """Draw which workers join and leave, and when, from the seed. Targets of faults do not leave.

    Raises `UsageError` for a pipeline without consumer groups.
    """
    if not options.churn_s:
        return ()
    workers = {stage.name: stage.workers for stage in spec.stages if stage.group is not None}
    if not workers:
        raise UsageError(
            f"churn needs a workload with a consumer group, and {spec.name} has none: choose another --workload"
        )
    targets = {
        fault.target.name.rpartition("/")[2] for fault in planned_faults if fault.target.role == "worker"
    }
    rng = Random(f"{options.seed}/churn")
    return churn.draw(rng, options.churn_s, options.time_limit_s, workers, targets)


def apply_options(spec: PipelineSpec, options: Options, workload: "Workload") -> PipelineSpec:
    """Add what the options require to the spec of a workload. Raises `UsageError` if the workload cannot do it."""
    from workloads.model.workload import largest_bytes

    if options.record_bytes and not any(delivery.transforms for delivery in workload.deliveries):
        raise UsageError(
            f"record-bytes needs a workload that makes outputs from inputs, and {workload.name} does not: "
            "choose another --workload"
        )
    if options.replicas is not None:
        if options.replicas > options.brokers:
            raise UsageError(
                f"{options.replicas} replicas need as many brokers, and the cluster has {options.brokers}: "
                "choose fewer replicas, or more --brokers"
            )
        spec = spec.with_replicas(options.replicas)
    limit = largest_bytes(options.record_bytes)
    if limit is not None:
        spec = spec.with_topics({"max.message.bytes": str(limit)})
    has_transactions = any(delivery.transactional and delivery.transforms for delivery in workload.deliveries)
    for key, share in (("empty-share", options.empty_share), ("overrun-share", options.overrun_share)):
        if share and not has_transactions:
            raise UsageError(
                f"{key} needs a workload that delivers its outputs in transactions, and {workload.name} does not: "
                "choose another --workload"
            )
    return replace(spec, goals=(*spec.goals, *_goals(options, workload)))


def _goals(options: Options, workload: "Workload") -> list[Goal]:
    """The goals that each kind of unusual transaction in the options occurs."""
    exercises: list[tuple[Exercise, str]] = []
    if empty_share(options, workload) > 0:
        exercises += [
            (Exercise.EMPTY, "no transaction was committed with nothing in it"),
            (Exercise.OFFSETS_ONLY, "no transaction was committed with offsets alone"),
        ]
        if any(stage.notes for stage in workload.stages):
            exercises.append((Exercise.OUTPUTS_ONLY, "no transaction was committed with outputs alone"))
    if options.overrun_share > 0:
        exercises.append((Exercise.TIMED_OUT, "no transaction outlived its time-out"))
    return [Goal(exercise.value, exercise.value, text, LONGER) for exercise, text in exercises]
