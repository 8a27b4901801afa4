"""Whether a user's description is the same at the end of a run: its final readers read it once more."""

from collections.abc import Callable

from harness.reasons import ReasonCode
from harness.runner.run_log import RunLog
from pipelines.pipeline import UserPipeline
from workloads.model.workload import Workload


def watched(pipeline: Workload | UserPipeline) -> Callable[[RunLog], None]:
    """To be called once the run is over: notes that the description is another than it is now."""
    if not isinstance(pipeline, UserPipeline):
        return lambda run_log: None
    begun = pipeline.digest()

    def unchanged(run_log: RunLog) -> None:
        if pipeline.digest() != begun:
            file = str(pipeline.described.file)
            words = f"{file}, or a file that its functions stand in, was changed while the run went on"
            run_log.problem(ReasonCode.DESCRIPTION_CHANGED, words, file)

    return unchanged
