"""The shared part of faults whose target is a broker with a role: another broker must take over the role."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from harness.cluster import Broker
from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.wording import join_words
from harness.model.vocabulary import WorkerStep
from harness.processes.messages import Command
from harness.runner.nemesis import FaultContext, InjectedFault, PlannedFault, Target, TargetMissing
from harness.runner.run_process import RunProcess
from nemeses.aiming.roles import (
    await_broker_in_role,
    await_failover,
    broker_numbers,
    describe_role,
    other_broker,
)
from nemeses.aiming.targets import broker_in_role, view_of, worker_using_role

STEP_TIMEOUT_S = 45.0
IN_SYNC_TIMEOUT_S = 90.0
STOPPED = "broker-stopped"
T = TypeVar("T")

_NAMED_BY = {
    "leader": "partition",
    "follower": "partition",
    "txn-coordinator": "transactional_id",
    "group-coordinator": "group",
}
"""By role: the key under which a fault report has the partition, transactional id or group of the role."""


@contextmanager
def inject_on_role(
    context: FaultContext,
    planned: PlannedFault,
    stop: Callable[[Broker], str],
    heal: Callable[[Broker], object],
) -> Iterator[InjectedFault]:
    """Stop the brokers that have a role, wait until another broker has it, and heal the first ones at the end.

    If the target is brokers by their numbers, no other broker takes over from them, and nothing is awaited. `stop`
    returns a sentence that proves that the broker stopped. If it returns "" for one of them, the fault did not act.
    """
    target = planned.target
    brokers = brokers_in_role(context, target)
    effect = describe(target, brokers)
    worker = _hold_worker(context, planned, effect)
    if worker is None and planned.step:
        yield effect
        return
    begun_s = time.monotonic()
    try:
        effect.mark_injected()
        try:
            proofs = _at_once(stop, brokers)
        finally:
            if worker is not None:
                worker.send(Command(go=True))
        proof = "; ".join(filter(None, proofs))
        if not all(proofs):
            unproved = [str(broker.id) for broker, words in zip(brokers, proofs, strict=True) if not words]
            effect.unmet_goals[STOPPED] = f"nothing proves that broker {join_words(unproved)} was affected"
        elif broker_numbers(target) is not None:
            effect.add_proof(proof)
        else:
            probe, awaited = _takeover(context, target, brokers[0].id)
            if (takeover := await_failover(context, effect, proof, probe, awaited)) is not None:
                effect.add_proof(proof)
                effect.add_proof(f"{takeover} after {time.monotonic() - begun_s:.1f} s")
        yield effect
    finally:
        _at_once(heal, brokers)
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR again after {time.monotonic() - begun_s:.1f} s")


@contextmanager
def change_in_role(
    context: FaultContext,
    planned: PlannedFault,
    change: Callable[[Broker], object],
    prove: Callable[[Broker], str],
    heal: Callable[[Broker], object],
) -> Iterator[InjectedFault]:
    """Change something on the brokers that have a role while they run, and heal them at the end.

    `prove` is called before the heal. It returns a sentence that proves that the broker was affected, or raises
    `WaitTimeout`. The fault acted if each broker was affected.
    """
    brokers = brokers_in_role(context, planned.target)
    effect = describe(planned.target, brokers)
    begun_s = time.monotonic()
    try:
        effect.mark_injected()
        for broker in brokers:
            change(broker)
        yield effect
        for broker in brokers:
            try:
                effect.add_proof(prove(broker))
            except WaitTimeout as error:
                effect.unmet_goals[f"broker-{broker.id}"] = str(error)
        effect.acted = effect.acted and not effect.unmet_goals
    finally:
        _at_once(heal, brokers)
        effect.mark_healed()
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    effect.proof.append(f"in every ISR after {time.monotonic() - begun_s:.1f} s")


def brokers_in_role(context: FaultContext, target: Target) -> list[Broker]:
    """Return the brokers that have the role now. Wait until a broker has it.

    Raises `FaultFailed`, `WaitTimeout`, and `TargetMissing` for a broker that another fault has stopped.
    """
    numbers = broker_numbers(target)
    if numbers is None:
        numbers = [await_broker_in_role(context, broker_in_role(context.cluster, target), target)]
    by_number = {broker.id: broker for broker in context.cluster.brokers}
    for number in numbers:
        if number not in by_number:
            raise FaultFailed(f"{target} is broker {number}, which is not in this cluster")
        if not by_number[number].running:
            raise TargetMissing(f"{target} is broker {number}, which another fault has stopped")
    return [by_number[number] for number in numbers]


def describe(target: Target, brokers: Sequence[Broker]) -> InjectedFault:
    """Return the report of a fault that has not begun. It names the brokers that have the role."""
    numbers = [str(broker.id) for broker in brokers]
    several, role = len(numbers) > 1, describe_role(target)
    name = f"broker{'s' * several} {join_words(numbers, most=len(numbers))}"
    effect = InjectedFault(target=f"{name}, {role}" if role else name, short_target=role if several else name)
    effect.details |= {"brokers" if several else "broker": ", ".join(numbers), "role": target.role}
    if target.role in _NAMED_BY:
        effect.details[_NAMED_BY[target.role]] = target.name
    return effect


def _takeover(context: FaultContext, target: Target, first: int) -> tuple[Callable[[], str | None], str]:
    """Return a function that describes what happened after broker `first` lost its role, and what to wait for.

    It returns None before that. Nobody takes over from a follower, but it leaves the ISR.
    """
    cluster = context.cluster

    def isr_without_it() -> str | None:
        isr = view_of(cluster, target.name).isr
        if first in isr:
            return None
        return f"the ISR of {target.name} was {join_words(map(str, isr), most=len(isr))}"

    def successor() -> str | None:
        broker = other_broker(broker_in_role(cluster, target), first)
        return None if broker is None else f"broker {broker} took over its role"

    if target.role == "follower":
        return isr_without_it, f"broker {first} to leave the ISR of {target.name}"
    return successor, f"{target} to leave broker {first}"


def _at_once(act: Callable[[Broker], T], brokers: Sequence[Broker]) -> list[T]:
    """Call a function for each broker in parallel, and return the results after all calls.

    One after the other would never end: without a quorum of controllers, a broker neither starts nor shuts down.
    """
    with ThreadPoolExecutor(len(brokers)) as pool:
        return list(pool.map(act, brokers))


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


def shut_down(broker: Broker) -> str:
    """Send SIGTERM to the broker, and wait until it has shut down cleanly."""
    return f"{broker.stop()} after SIGTERM"


def restart(context: FaultContext, broker: Broker, prepare: Callable[[], None] = lambda: None) -> str:
    """Shut the broker down, start it again, and wait until all replicas are in sync. Return the proof.

    `prepare` is called while the broker is down. Raises `FaultFailed` if the broker does not shut down cleanly or does
    not come back, and `TargetMissing` if another fault has stopped it.
    """
    if not broker.running:
        raise TargetMissing(
            f"broker {broker.id} could not be restarted, because another fault has stopped it"
        )
    proof = shut_down(broker)
    try:
        prepare()
    finally:
        broker.start()
    context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, context.topics)
    return f"broker {broker.id}: {proof}, then in sync as process {broker.pid}"


def start(broker: Broker) -> None:
    """Start the broker again on its old data."""
    broker.start()


def pause(broker: Broker) -> str:
    """Pause the broker with SIGSTOP. It keeps its sockets and answers no request."""
    return broker.pause()


def resume(broker: Broker) -> str:
    """Resume the broker with SIGCONT."""
    return broker.resume()
