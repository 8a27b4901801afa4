"""The shared part of faults whose target is a broker with a role: another broker must take over the role."""

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
"""By role: the key, in the details of a fault report, of the thing that has the role."""


@contextmanager
def inject_on_role(
    context: FaultContext,
    planned: PlannedFault,
    stop: Callable[[Broker], str],
    heal: Callable[[Broker], object],
) -> Iterator[InjectedFault]:
    """Stop the broker that has a role, wait until another broker has it, and heal the first one at the end.

    `stop` returns its proof, in words.
    """
    who = broker_in_role(context.cluster, planned.target)
    first = await_broker_in_role(who, planned.target)
    broker = next((broker for broker in context.cluster.brokers if broker.id == first), None)
    if broker is None:
        raise FaultFailed(f"{planned.target} is broker {first}, which is not in this cluster")
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
            proof = stop(broker)
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
    """Hold a worker at the step at which the fault is aimed. None: there is no such step, or no worker reached it."""
    if planned.step is None:
        return None
    member = worker_behind(context, planned)
    asked = None if planned.step == WorkerStep.BEFORE_POLL else "commit"
    try:
        context.processes.wait_at_step(member, WorkerStep(planned.step), STEP_TIMEOUT_S, txn_end=asked)
    except WaitTimeout as error:  # a worker without inputs reaches no step, so the fault is not injected
        effect.unmet_goals["worker-at-step"] = str(error)
        return None
    effect.proof.append(f"{member.journal} waited at {planned.step}")
    effect.details |= {"worker": member.journal, "step": planned.step}
    return member


def kill(broker: Broker) -> str:
    """Kill the broker with SIGKILL."""
    return broker.kill()


def restart(broker: Broker) -> None:
    """Start the broker again on its old data."""
    broker.start()


def pause(broker: Broker) -> str:
    """Pause the broker with SIGSTOP. It keeps its sockets and its leases, and answers no request."""
    return broker.pause()


def resume(broker: Broker) -> str:
    """Resume the broker with SIGCONT."""
    return broker.resume()
