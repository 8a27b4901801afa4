"""What a run's options make of its pipeline: sizes of records, time-outs, and the goals of unusual transactions."""

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.history import Shape
from harness.pipeline import Goal, PipelineFacts
from harness.settings.options import Options

if TYPE_CHECKING:
    from workloads.model import Workload

LONGER = "a longer --time-limit or a higher --rate helps"


def txn_timeout_ms(options: Options) -> int:
    """The time-out of the pipeline's transactions."""
    return round(1000 * options.txn_timeout_s)


def empty_share(options: Options, workload: "Workload") -> float:
    """The share of batches that an empty transaction goes before."""
    return workload.empty_share if options.empty_share is None else options.empty_share


def shaped(facts: PipelineFacts, options: Options, workload: "Workload") -> PipelineFacts:
    """The facts of a workload with what these options add."""
    from workloads.padding import largest_bytes

    limit = largest_bytes(options.record_bytes)
    if limit is not None:
        facts = facts.with_topics({"max.message.bytes": str(limit)})
    return replace(facts, goals=(*facts.goals, *_goals(facts, options, workload)))


def _goals(facts: PipelineFacts, options: Options, workload: "Workload") -> list[Goal]:
    """That what the run asks for has happened."""
    if not facts.transactional:
        return []
    asked: list[tuple[Shape, str]] = []
    if empty_share(options, workload) > 0:
        asked += [
            (Shape.EMPTY, "no transaction was committed with nothing in it"),
            (Shape.OFFSETS_ONLY, "no transaction was committed with offsets alone"),
        ]
        if any(stage.notes for stage in workload.stages):
            asked.append((Shape.OUTPUTS_ONLY, "no transaction was committed with outputs alone"))
    if options.overrun_share > 0:
        asked.append((Shape.TIMED_OUT, "no transaction outlived its time-out"))
    return [Goal(shape.value, shape.value, text, LONGER) for shape, text in asked]
