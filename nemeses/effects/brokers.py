"""The shared part of faults whose target is a broker with a role: another broker must take over the role."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from harness.cluster import Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.model.vocabulary import WorkerStep
from harness.processes.control_line import Command
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault
from harness.runner.run_process import RunProcess
from nemeses.aiming.failover import await_broker_in_role, await_failover, other_broker
from nemeses.aiming.targets import broker_in_role, worker_using_role

STEP_TIMEOUT_S = 45.0
IN_SYNC_TIMEOUT_S = 90.0

_ROLES = {"leader": "partition", "txn-coordinator": "transactional_id", "group-coordinator": "group"}
"""By role: the key under which a fault report names the partition, transactional id or group of the role."""


@contextmanager
def inject_on_role(
    context: FaultContext,
    planned: PlannedFault,
    stop: Callable[[Broker], str],
    heal: Callable[[Broker], object],
) -> Iterator[InjectedFault]:
    """Stop the broker that has a role, wait until another broker has it, and heal the first one at the end.

    `stop` returns a sentence that proves that the broker stopped.
    """
    find_broker = broker_in_role(context.cluster, planned.target)
    first = await_broker_in_role(context, find_broker, planned.target)
    broker = next((broker for broker in context.cluster.brokers if broker.id == first), None)
    if broker is None:
        raise FaultFailed(f"{planned.target} is broker {first}, which is not in this cluster")
    broker_name = f"broker {broker.id}"
    effect = InjectedFault(
        target=f"{broker_name}, {planned.target.role} of {planned.target.name}", short_target=broker_name
    )
    effect.details |= {
        "broker": str(broker.id),
        _ROLES.get(planned.target.role, "role"): planned.target.name,
    }
    worker = _hold_worker(context, planned, effect)
    if worker is None and planned.step:
        yield effect
        return
    begun_s = time.monotonic()
    try:
        effect.mark_injected()
        try:
            proof = stop(broker)
        finally:
            if worker is not None:
                worker.send(Command(go=True))
        successor = await_failover(
            context,
            effect,
            proof,
            partial(other_broker, find_broker, first),
            f"{planned.target} to leave broker {first}",
        )
        if successor is not None:
            effect.add_proof(proof)
            effect.add_proof(
                f"broker {successor} took over its role after {time.monotonic() - begun_s:.1f} s"
            )
        yield effect
    finally:
        heal(broker)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")


def _hold_worker(context: FaultContext, planned: PlannedFault, effect: InjectedFault) -> RunProcess | None:
    """Hold a worker at the step at which the fault is aimed. None: there is no such step, or no worker reached it."""
    if planned.step is None:
        return None
    member = worker_using_role(context, planned)
    intended_end = None if planned.step == WorkerStep.BEFORE_POLL else "commit"
    try:
        context.processes.hold_at_step(
            member, WorkerStep(planned.step), context.scaled(STEP_TIMEOUT_S), intended_end=intended_end
        )
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
    """Pause the broker with SIGSTOP. It keeps its sockets and answers no request."""
    return broker.pause()


def resume(broker: Broker) -> str:
    """Resume the broker with SIGCONT."""
    return broker.resume()
