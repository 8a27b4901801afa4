"""What the faults that strike a broker have in common: the role must pass to another."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from harness.cluster import Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from nemeses.aiming.failover import await_broker_in_role, await_failover, other_broker
from nemeses.aiming.targets import broker_in_role, worker_behind

STEP_TIMEOUT_S = 45.0
IN_SYNC_TIMEOUT_S = 90.0

_ROLES = {"leader": "partition", "txn-coordinator": "transactional_id", "group-coordinator": "group"}
"""What a role is for, as the details of a fault call it."""


@contextmanager
def inject_on_role(
    context: FaultContext,
    planned: PlannedFault,
    hit: Callable[[Broker], str],
    heal: Callable[[Broker], object],
) -> Iterator[InjectedFault]:
    """Strike the broker that fills a role, wait until another fills it, and put it right."""
    who = broker_in_role(context.cluster, planned.target)
    first = await_broker_in_role(who, planned.target)
    broker = next((broker for broker in context.cluster.brokers if broker.id == first), None)
    if broker is None:
        raise FaultFailed(f"{planned.target} is broker {first}, which is not of this cluster")
    named = f"broker {broker.id}"
    effect = InjectedFault(
        target=f"{named}, {planned.target.role} of {planned.target.name}", short_target=named
    )
    effect.details |= {
        "broker": str(broker.id),
        _ROLES.get(planned.target.role, "role"): planned.target.name,
    }
    held = _hold(context, planned, effect)
    if held is None and planned.step:
        yield effect
        return
    begun_s = time.monotonic()
    try:
        effect.mark_injected()
        try:
            proof = hit(broker)
        finally:
            if held is not None:
                held.send(Command(go=True))
        moved = await_failover(
            effect, proof, partial(other_broker, who, first), f"{planned.target} to leave broker {first}"
        )
        if moved is not None:
            effect.add_proof(proof)
            effect.add_proof(f"broker {moved} took over its role after {time.monotonic() - begun_s:.1f} s")
        yield effect
    finally:
        heal(broker)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")


def _hold(context: FaultContext, planned: PlannedFault, effect: InjectedFault) -> RunProcess | None:
    """Have a worker wait at the step at which the fault is aimed; None: at none, or it did not come there."""
    if planned.step is None:
        return None
    member = worker_behind(context, planned)
    asked = None if planned.step == WorkerStep.BEFORE_POLL else "commit"
    try:
        context.processes.wait_at_step(member, WorkerStep(planned.step), STEP_TIMEOUT_S, asked=asked)
    except WaitTimeout as error:  # a worker that has nothing to do comes to no step: nothing was struck
        effect.unmet_goals["worker-at-step"] = str(error)
        return None
    effect.proof.append(f"{member.journal} stood at {planned.step}")
    effect.details |= {"worker": member.journal, "step": planned.step}
    return member


def kill(broker: Broker) -> str:
    """SIGKILL."""
    return broker.kill()


def restart(broker: Broker) -> None:
    """Start it again on its old data."""
    broker.start()


def pause(broker: Broker) -> str:
    """SIGSTOP: it keeps its sockets and its leases, and answers nobody."""
    return broker.pause()


def resume(broker: Broker) -> str:
    """SIGCONT."""
    return broker.resume()
