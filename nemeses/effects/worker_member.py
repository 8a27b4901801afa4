"""A worker of a workload as the target of a fault.

It reports its steps, its inputs and the ends of its transactions, and it waits at a step if the run asks for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

from harness.common.errors import WaitTimeout
from harness.model.vocabulary import OffsetTracking, WorkerStep
from harness.processes.messages import Claims, Command, Counts
from harness.record.naming import split_partition
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    NotForThisPipeline,
    PlannedFault,
    Target,
)
from harness.runner.run_process import RunProcess
from nemeses.aiming.targets import choose, worker_in_role
from nemeses.effects.member import ZOMBIE, Member

STEP_TIMEOUT_S = 45.0
TAKE_OVER_TIMEOUT_S = 60.0
COME_BACK_TIMEOUT_S = 60.0
PROCESS_ENDED = "the process ended"
MORE_TRIES = 3
"""How many later transactions of the worker to try if others cannot take this one over."""


def any_worker(
    rng: Random,
    targets: FaultTargets,
    steps: Mapping[str, Sequence[str]],
    requirement: str = "a pipeline whose workers report their steps",
) -> DrawnFault:
    """Draw a worker, and one of the `steps` of its stage. Raises `NoTarget`."""
    possible = {stage: steps[stage] for stage in targets.stages if targets.workers[stage]}
    stages = [stage for stage, names in possible.items() if names]
    if not any(targets.steps.values()):
        raise NotForThisPipeline(requirement)
    stage = choose(rng, stages, requirement)
    worker = rng.choice(targets.workers[stage])
    step = rng.choice(possible[stage])
    return DrawnFault(Target("worker", f"{stage}/{worker}"), {"step": targets.step or step})


class WorkerMember(Member):
    """A worker that a fault holds at a step of its loop."""

    noun = "worker"

    def __init__(
        self, context: FaultContext, planned: PlannedFault, process: RunProcess, unready: str = ""
    ) -> None:
        super().__init__(context, planned, process, unready)
        self.claims: Claims = {}  # its inputs, when it is held
        self.uncommitted: Claims = {}  # those that its group, if it has one, had not committed
        self._before = Counts()  # its counts before it was paused
        self._begun_s = 0.0  # the monotonic clock when it was paused
        self._taken_over_after_s = 0.0

    @classmethod
    def find(cls, context: FaultContext, planned: PlannedFault) -> "WorkerMember":
        """Return the worker that a fault names, or another one of its stage that has inputs. Raises `FaultFailed`."""
        return cls(context, planned, worker_in_role(context.processes, planned.target))

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Hold the worker at the step at which the fault is aimed."""
        step = self._begin_at_step()
        try:
            self.claims = self._hold(step)
        except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
            self.effect.unmet_goals["worker-struck"] = str(error)
            yield False
        else:
            yield True

    @contextmanager
    def held_with_inputs(self, replaced: bool) -> Iterator[bool]:
        """Hold the worker at the step, in a transaction that is to commit and that others can take over.

        A zombie that would abort anyway proves nothing.
        """
        step = self._begin_at_step()
        try:
            self.claims = self._hold(step, intended_end="commit")
            self.uncommitted = self._uncommitted(replaced)
            for _ in range(MORE_TRIES):
                if self.uncommitted:
                    break
                self.claims = self._hold(step, intended_end="commit", resume=True)
                self.uncommitted = self._uncommitted(replaced)
        except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
            self.effect.unmet_goals[ZOMBIE] = str(error)
            yield False
        else:
            yield True

    def _begin_at_step(self) -> WorkerStep:
        step = WorkerStep(self.planned.step or WorkerStep.AFTER_SEND)
        self.effect.target = f"worker {self.process.journal} at {step.value}"
        self.effect.details["step"] = step.value
        self.moment = f"it waited at {step.value}"
        return step

    def _hold(self, step: WorkerStep, intended_end: str | None = None, *, resume: bool = False) -> Claims:
        timeout_s = self.context.scaled(STEP_TIMEOUT_S)
        return self.context.processes.hold_at_step(
            self.process, step, timeout_s, intended_end=intended_end, resume=resume
        )

    def _uncommitted(self, replaced: bool) -> Claims:
        """Return the claims of the worker of which the fault can see that others take them over.

        In a group these are the claims that the group has not committed. Without a group, and without a replacement,
        only the time-out of its transaction ends it, so there must be one: it begins with the first record.
        """
        if self.process.group is not None:
            committed = self.context.cluster.committed_offsets(self.process.group)
            return {
                key: claim
                for key, claim in self.claims.items()
                if committed.get(split_partition(key), -1) < claim[1]
            }
        if replaced or self.stage.offset_tracking is OffsetTracking.EACH:
            return self.claims
        view = self.context.cluster.describe_transaction(self._transactional_id())
        return self.claims if view is not None and view.state == "Ongoing" else {}

    def _transactional_id(self) -> str:
        """Return the transactional id of its transaction; an empty string if it has none."""
        partitions = map(split_partition, self.claims)
        return self.stage.transactional_id_of(self.process.worker or "", partitions) or ""

    def pause(self) -> None:
        """Stop the worker with SIGSTOP."""
        self._before = self.process.status.counts
        self._begun_s = time.monotonic()
        self.effect.mark_injected()
        self.moment = f"{self.moment}; {self.process.child.pause()}"

    def replace(self) -> RunProcess:
        """Start the next incarnation of the worker, and wait until it is ready."""
        replacement = self.context.processes.replace(self.process)
        self.context.processes.await_ready([replacement])
        return replacement

    def await_others(self, replaced: bool) -> str:
        """Wait until others have processed an input of the worker."""
        otherwise = self._replacement_committed() if replaced else self._transaction_ended()
        progress = self.await_processed(otherwise)
        self._taken_over_after_s = time.monotonic() - self._begun_s
        return progress

    def _replacement_committed(self) -> Callable[[], str | None]:
        replacement = self.replace()
        return lambda: (
            f"{replacement.journal} had committed in its place"
            if replacement.status.counts.committed
            else None
        )

    def _transaction_ended(self) -> Callable[[], str | None]:
        cluster, transactional_id = self.context.cluster, self._transactional_id()
        at_pause = cluster.describe_transaction(transactional_id)

        def ended() -> str | None:
            view = cluster.describe_transaction(transactional_id)
            if view is None or view == at_pause or view.state != "CompleteAbort":
                return None
            return f"the coordinator had aborted its transaction of {transactional_id} after the time-out"

        return ended

    def await_processed(self, otherwise: Callable[[], str | None]) -> str:
        """Wait until others have processed one of `claims`. Return a sentence that says so; "" if not in time.

        `otherwise` returns a sentence once others have taken over. It is called if nothing shows which inputs are
        processed.
        """
        stage, group = self.stage, self.process.group
        probe: Callable[[], str | None] = otherwise
        if group is not None:
            probe = partial(self._committed_claim, group)
        elif stage.offset_tracking is OffsetTracking.EACH:
            probe = self._processed_claim
        awaited = f"{group or stage.name} to go on without {self.process.journal}"
        try:
            # If the worker has added its offsets, others wait until the coordinator has ended its transaction.
            return self.context.wait_for(
                probe, awaited, TAKE_OVER_TIMEOUT_S + stage.txn_timeout_ms / 1000, every_s=0.2
            )
        except WaitTimeout:
            return ""

    def _committed_claim(self, group: str) -> str | None:
        """Return a sentence that says which of the claims the group has committed. None: it has committed none."""
        committed = self.context.cluster.committed_offsets(group)
        for key, (_, following) in self.uncommitted.items():
            if committed.get(split_partition(key), -1) >= following:
                return f"others had committed {key} up to {committed[split_partition(key)]}"
        return None

    def _processed_claim(self) -> str | None:
        """Return a sentence that says of which claim all rows are processed. None: of no claim."""
        for key, (first, following) in self.claims.items():
            if self.context.backlog(split_partition(key)[0], (first, following)) == 0:
                return f"others had processed {key} from {first} to {following - 1}"
        return None

    def observe(self) -> None:
        """Do nothing, because the worker reports what it does."""

    def resume(self, replaced: bool) -> None:
        """Resume the worker. If it was replaced, it ends after its transaction."""
        self.process.send(Command(replaced=replaced, go=True))
        self.process.child.resume()

    def prove_return(self, progress: str) -> None:
        """Wait until the worker has ended its transaction. Its next requests must have had no effect."""
        came_back = self._await_end()
        journal, effect = self.process.journal, self.effect
        if not progress:
            effect.unmet_goals[ZOMBIE] = f"{journal} was paused, but no other worker committed its inputs"
        elif not came_back:
            effect.unmet_goals[ZOMBIE] = f"{progress}, but then {journal} did not continue its transaction"
        else:
            effect.add_proof(f"{self.moment}; {progress} after {self._taken_over_after_s:.1f} s")
            effect.add_proof(came_back)

    def _await_end(self) -> str:
        """Wait until the zombie ends its transaction, and return a sentence that says how.

        The end shows in the counts of the worker: each end of a transaction adds to one of them. Return an empty string
        if no count grows in time, or if the zombie ends before one grows.
        """
        process, before = self.process, self._before

        def ended() -> str | None:
            counts = process.status.counts
            if counts.fenced > before.fenced:
                return f"{process.journal} came back and was fenced"
            if any(
                getattr(counts, name) > getattr(before, name)
                for name in ("committed", "failed", "aborted", "info")
            ):
                return f"{process.journal} came back and continued its transaction without being fenced"
            return None if process.alive else PROCESS_ENDED

        try:
            awaited = f"{process.journal} to come back"
            ending = self.context.wait_for(
                ended, awaited, COME_BACK_TIMEOUT_S, last_seen=lambda: process.status
            )
        except WaitTimeout:
            return ""
        return "" if ending == PROCESS_ENDED else ending

    def await_recovery(self) -> None:
        """Do nothing, because the cluster takes no part in holding a worker at a step."""
