"""cut-txn-coordinator: cut a worker that is about to commit off from the coordinator of its transactional id.

The worker cannot know whether its transaction committed, because its request is lost and gets no response. A correct
worker retries, or reads the offsets of its group again. A worker that treats the time-out as success loses inputs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import WorkerStep
from harness.network import Cut, client_link
from harness.processes.messages import Command
from harness.runner.nemesis import (
    FaultContext,
    InjectedFault,
    Nemesis,
    PlannedFault,
    uses_brokers_and_workers,
)
from harness.runner.run_process import RunProcess
from nemeses.aiming.targets import any_txn_coordinator, stages_of
from nemeses.effects.links import prove_on_links

GOAL = "txn-coordinator"
STEP_TIMEOUT_S = 45.0
COORDINATOR_TIMEOUT_S = 10.0
"""How long to hold a worker while its transactional id has no coordinator. An election takes seconds."""


@contextmanager
def cut_txn_coordinator(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Cut the link, and let the worker commit.

    The fault acted if the worker was at the step, and if its requests were lost while the broker answered
    others.
    """
    member, transactional_id, first_broker = _choose_worker(context, planned)
    who = f"worker {member.journal}"
    effect = InjectedFault(
        target=f"{who} from the transaction coordinator of {transactional_id}", short_target=who
    )
    effect.details |= {"worker": member.journal, "transactional_id": transactional_id}
    step = WorkerStep(planned.step or WorkerStep.BEFORE_COMMIT)
    try:
        context.processes.hold_at_step(member, step, context.scaled(STEP_TIMEOUT_S), intended_end="commit")
    except WaitTimeout as error:
        effect.unmet_goals["worker-at-step"] = str(error)
        yield effect
        return
    try:
        broker = _coordinator_now(context, transactional_id, effect)
        if broker is None:
            yield effect
            return
        effect.other = f"its transaction coordinator, broker {broker}"
        effect.target = f"{who} from {effect.other}"
        effect.details["broker"] = str(broker)
        effect.mark_injected()
        with context.cluster.network.impose([client_link(member.endpoint, broker)], Cut()) as cut:
            member.send(Command(go=True))
            effect.proof.append(f"{member.journal} waited at {step.value}")
            if broker != first_broker:
                effect.proof.append(
                    f"{transactional_id} was coordinated by broker {first_broker} when the fault began, "
                    f"and by broker {broker} when {member.journal} waited there"
                )
            yield effect
            prove_on_links(context, effect, cut)
    finally:
        member.send(Command(go=True))


def _coordinator_now(context: FaultContext, transactional_id: str, effect: InjectedFault) -> int | None:
    """Return the broker that coordinates the id now, which may have changed since the fault began.

    None if no broker coordinates it within `COORDINATOR_TIMEOUT_S`. Then the effect has the reason.
    """

    def find_coordinator() -> tuple[int] | None:
        broker = context.cluster.txn_coordinator(transactional_id)
        return (broker,) if broker >= 0 else None

    try:
        return context.wait_for(
            find_coordinator, f"a broker to coordinate {transactional_id}", COORDINATOR_TIMEOUT_S, every_s=0.2
        )[0]
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return None


def _choose_worker(context: FaultContext, planned: PlannedFault) -> tuple[RunProcess, str, int]:
    """Return a worker, its transactional id, and the broker that coordinates the id now.

    Prefer a worker whose group has another coordinator, so that the worker keeps its partitions. Raises `FaultFailed`
    if there is no such worker or broker.
    """
    cluster, drawn_id = context.cluster, planned.target.name
    candidates: list[tuple[bool, bool, bool, RunProcess, str, int]] = []
    for stage in stages_of(context, planned):
        for member in context.processes.workers(stage.name):
            own_id = _id_of(stage, member, drawn_id)
            broker = cluster.txn_coordinator(own_id) if own_id is not None else -1
            if own_id is not None and broker >= 0:
                keeps_group = stage.group is None or cluster.group_coordinator(stage.group) != broker
                is_busy = bool(member.status.counts.inputs)
                candidates.append((keeps_group, is_busy, own_id == drawn_id, member, own_id, broker))
    if not candidates:
        raise FaultFailed(f"no worker with a transactional id is alive, or no broker coordinates {drawn_id}")
    *_, member, transactional_id, broker = max(candidates, key=lambda candidate: candidate[:3])
    return member, transactional_id, broker


def _id_of(stage: StageSpec, member: RunProcess, drawn_id: str) -> str | None:
    """Return the id of the worker, or `drawn_id` if the ids of the stage belong to partitions."""
    ids = stage.transactional_ids
    return ids.get(member.worker or "") or (drawn_id if drawn_id in ids.values() else None)


NEMESIS = Nemesis(
    name="cut-txn-coordinator",
    summary="cut a worker that is about to commit off from the coordinator of its transactional id",
    past_tense="was cut off",
    proves="the worker was at the step, and its requests were lost, while the broker answered others",
    needs=frozenset({Cut}),
    occupies=uses_brokers_and_workers,
    hold_s=5.0,
    recovery_s=6.0,
    draw=any_txn_coordinator,
    inject=cut_txn_coordinator,
    halts=True,
    by_default=False,
    aimable=True,
)
