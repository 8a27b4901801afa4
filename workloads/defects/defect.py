"""A defect: one change to the delivery policy, and the anomalies that it can cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.common.errors import UsageError
from harness.model.vocabulary import WorkerStep
from harness.results.wording import join_words
from workloads.model.policy import Delivery, Policy
from workloads.model.workload import Workload


@dataclass(frozen=True)
class Defect:
    """A planted bug. A run with it must find at least one of its anomalies and no other."""

    name: str
    summary: str
    policy: Policy
    anomalies: frozenset[str]
    options: Mapping[str, object] = field(
        default_factory=dict
    )  # options of the run that the bug needs to appear
    nemesis: tuple[str, ...] = ()  # the faults that provoke it; empty: it appears without faults
    step: WorkerStep | None = None  # the step at which these faults must be injected
    stage: int | None = None  # the stage in which these faults must be injected, from 0; None: any
    stages: int = 1  # the number of stages that a record must be able to pass
    deliveries: frozenset[Delivery] = frozenset({Delivery.TRANSACTIONS, Delivery.PINNED})
    stateful: bool = False  # whether it needs a stage that restores its sums
    output_name: str | None = None  # an output that the workload must have
    shape: str | None = None  # a property that some outputs must have
    clients: frozenset[str] = frozenset({"librdkafka", "java"})  # the clients with which it appears

    def fits(self, workload: Workload) -> bool:
        """Whether the workload can have this defect."""
        return (
            workload.depth >= self.stages
            and not self.deliveries.isdisjoint(workload.deliveries)
            and (not self.stateful or any(map(workload.restores, workload.stages)))
            and (self.output_name is None or self.output_name in workload.output_names)
            and (self.shape is None or self.shape in workload.shapes)
        )

    def stage_of(self, workload: Workload) -> str | None:
        """Return the name of the stage in which its faults are injected. None: any stage."""
        return None if self.stage is None else workload.stages[self.stage].name

    def require(self, workload: Workload, client: str, workloads: Iterable[Workload]) -> None:
        """Raise `UsageError` if the workload cannot have this defect, or if the client prevents it.

        `workloads` has all workloads. The message names those that can have the defect.
        """
        if self.fits(workload) and client not in self.clients:
            raise UsageError(
                f"the client {client} prevents the defect {self.name}: "
                f"choose --client {join_words(sorted(self.clients))}"
            )
        if self.fits(workload):
            return
        if workload.depth < self.stages:
            requirement = f"a workload with {self.stages} stages or more"
        elif self.stateful:
            requirement = "a workload with a stage that restores its sums"
        elif self.shape is not None:
            requirement = f"a workload whose outputs have {self.shape}"
        elif self.output_name is not None:
            requirement = f"a workload that writes the output {self.output_name}"
        else:
            requirement = f"a workload that delivers by {join_words(sorted(self.deliveries))}"
        *others, last = (candidate.name for candidate in workloads if self.fits(candidate))
        suitable = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"the defect {self.name} needs {requirement}: choose --workload {suitable}")
