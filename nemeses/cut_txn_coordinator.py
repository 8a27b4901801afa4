"""cut-txn-coordinator: a worker that is about to commit is cut off from the coordinator of its transactional id.

Whether its transaction committed it cannot know: the request is lost, and no answer comes. A right one asks again until
somebody answers, or asks the group where it stands; one that takes silence for success goes past its inputs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import WorkerStep
from harness.network import Cut
from harness.network.links import client_link
from harness.processes.control_line import Command
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext, InjectedFault, Nemesis, PlannedFault
from harness.runner.occupied import brokers_and_a_worker
from nemeses.aiming.targets import any_txn_coordinator, stages_of
from nemeses.effects.cuts import prove_cut

GOAL = "txn-coordinator"
STEP_TIMEOUT_S = 45.0
COORDINATOR_TIMEOUT_S = 10.0
"""How long a worker is held at its step while its transactional id has no coordinator: an election takes seconds."""


@contextmanager
def cut_txn_coordinator(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """It acted if the worker stood at the step, and what it sent was lost while the broker answered others."""
    member, transactional_id, foreseen = _whom(context, planned)
    who = f"worker {member.journal}"
    effect = InjectedFault(
        target=f"{who} from the transaction coordinator of {transactional_id}", short_target=who
    )
    effect.details |= {"worker": member.journal, "transactional_id": transactional_id}
    step = WorkerStep(planned.step or WorkerStep.BEFORE_COMMIT)
    try:
        context.processes.wait_at_step(member, step, STEP_TIMEOUT_S, asked="commit")
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
            effect.proof.append(f"{member.journal} stood at {step.value}")
            if broker != foreseen:
                effect.proof.append(
                    f"{transactional_id} was coordinated by broker {foreseen} when the fault began, "
                    f"and by broker {broker} when {member.journal} stood there"
                )
            yield effect
            prove_cut(effect, cut)
    finally:
        member.send(Command(go=True))


def _coordinator_now(context: FaultContext, transactional_id: str, effect: InjectedFault) -> int | None:
    """Return the broker that coordinates the id now, which may have changed since the fault began.

    None, and a note in the effect, if no broker coordinates it within `COORDINATOR_TIMEOUT_S`.
    """

    def found() -> tuple[int] | None:
        broker = context.cluster.txn_coordinator(transactional_id)
        return (broker,) if broker >= 0 else None

    try:
        return wait_for(
            found, f"a broker to coordinate {transactional_id}", COORDINATOR_TIMEOUT_S, every_s=0.2
        )[0]
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
        return None


def _whom(context: FaultContext, planned: PlannedFault) -> tuple[RunProcess, str, int]:
    """Return a worker, its transactional id, and the broker that coordinates the id now.

    It prefers a worker whose group has another coordinator, so that the worker keeps its partitions. Raises
    `FaultFailed`.
    """
    cluster, named = context.cluster, planned.target.name
    found: list[tuple[bool, bool, bool, RunProcess, str, int]] = []
    for stage in stages_of(context, planned):
        for member in context.processes.workers(stage.name):
            transactional_id = _id_of(stage, member, named)
            broker = cluster.txn_coordinator(transactional_id) if transactional_id is not None else -1
            if transactional_id is not None and broker >= 0:
                alone = stage.group is None or cluster.group_coordinator(stage.group) != broker
                busy = bool(member.status.counts.inputs)
                found.append((alone, busy, transactional_id == named, member, transactional_id, broker))
    if not found:
        raise FaultFailed(f"no worker with a transactional id is alive, or nobody coordinates {named}")
    *_, member, transactional_id, broker = max(found, key=lambda one: one[:3])
    return member, transactional_id, broker


def _id_of(stage: StageSpec, member: RunProcess, named: str) -> str | None:
    """The worker's own id; of a stage whose ids belong to partitions the one that is named."""
    ids = stage.transactional_ids
    return ids.get(member.worker or "") or (named if named in ids.values() else None)


NEMESIS = Nemesis(
    name="cut-txn-coordinator",
    summary="cut a worker that is about to commit off from the coordinator of its transactional id",
    past_tense="was cut off",
    needs=frozenset({Cut}),
    occupies=brokers_and_a_worker,
    hold_s=5.0,
    recovery_s=6.0,
    draw=any_txn_coordinator,
    inject=cut_txn_coordinator,
    by_default=False,
    aimable=True,
)
