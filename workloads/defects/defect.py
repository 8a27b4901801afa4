"""What a defect is: one change to the loop, and the anomalies that it may cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.common.errors import UsageError
from harness.model.vocabulary import WorkerStep
from harness.results.wording import join_words
from workloads.model.policy import Delivery, Policy
from workloads.model.workload import Workload


@dataclass(frozen=True)
class Defect:
    """A pipeline that is wrong on purpose."""

    name: str
    summary: str
    policy: Policy
    anomalies: frozenset[str]
    options: Mapping[str, object] = field(default_factory=dict)  # of the run, that it needs to show
    nemesis: tuple[str, ...] = ()  # the faults that provoke it; none: it shows by itself
    step: WorkerStep | None = None  # where those faults must strike
    stage: int | None = None  # and in which stage, counted from 0
    stages: int = 1  # how many a record must be able to pass for the defect to show
    deliveries: frozenset[Delivery] = frozenset({Delivery.TRANSACTIONS, Delivery.PINNED})
    stateful: bool = False  # it needs a stage that restores its sums
    output_name: str | None = None  # of an output that a workload must have
    shape: str | None = None  # that some of its outputs must have
    clients: frozenset[str] = frozenset({"librdkafka", "java"})  # with which it shows

    def fits(self, workload: Workload) -> bool:
        """Whether the workload can have it."""
        return (
            workload.depth >= self.stages
            and not self.deliveries.isdisjoint(workload.deliveries)
            and (not self.stateful or any(map(workload.restores, workload.stages)))
            and (self.output_name is None or self.output_name in workload.output_names)
            and (self.shape is None or self.shape in workload.shapes)
        )

    def stage_of(self, workload: Workload) -> str | None:
        """The name of the stage in which its faults must strike; None: in any."""
        return None if self.stage is None else workload.stages[self.stage].name

    def require(self, workload: Workload, client: str, workloads: Iterable[Workload]) -> None:
        """Raise `UsageError` where the workload cannot have it, or where the client prevents it.

        `workloads`: all that there are, to name one that can.
        """
        if self.fits(workload) and client not in self.clients:
            raise UsageError(
                f"the client {client} prevents the defect {self.name}: "
                f"choose --client {join_words(sorted(self.clients))}"
            )
        if self.fits(workload):
            return
        if workload.depth < self.stages:
            needed = f"a workload with {self.stages} stages or more"
        elif self.stateful:
            needed = "a workload with a stage that restores its sums"
        elif self.shape is not None:
            needed = f"a workload whose outputs have {self.shape}"
        elif self.output_name is not None:
            needed = f"a workload that writes the output {self.output_name}"
        else:
            needed = f"a workload that delivers by {join_words(sorted(self.deliveries))}"
        able = " or ".join(f"--workload {one.name}" for one in workloads if self.fits(one))
        raise UsageError(f"the defect {self.name} needs {needed}: choose {able}")
