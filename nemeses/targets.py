"""Targets by role, drawn before a run and resolved when a fault injections."""

from collections.abc import Callable
from random import Random

from harness.cluster import Cluster
from harness.errors import FaultFailed
from harness.history import Step
from harness.runner.processes import Member, Processes
from harness.runner.schedule import FaultTargets


def any_leader(rng: Random, grounds: FaultTargets) -> tuple[str, None]:
    """The leader of one of the pipeline's partitions."""
    topic, partition = rng.choice(grounds.places)
    return f"leader:{topic}/{partition}", None


def any_txn_coordinator(rng: Random, grounds: FaultTargets) -> tuple[str, None]:
    """The coordinator of one worker's transactional id."""
    workers = [worker for stage in sorted(grounds.workers) for worker in grounds.workers[stage]]
    return f"txn-coordinator:{rng.choice(workers)}", None


def any_group_coordinator(rng: Random, grounds: FaultTargets) -> tuple[str, None]:
    """The coordinator of one stage's consumer group."""
    return f"group-coordinator:{rng.choice(grounds.groups)}", None


def any_worker(rng: Random, grounds: FaultTargets, steps: tuple[Step, ...]) -> tuple[str, str]:
    """A worker, and the step at which it is struck."""
    stage = grounds.stage or rng.choice(sorted(grounds.workers))
    worker = rng.choice(grounds.workers[stage])
    step = rng.choice(steps).value
    return f"worker:{stage}/{worker}", grounds.step or step


def broker_in_role(cluster: Cluster, role: str) -> Callable[[], int]:
    """Who fills a role now: a question that may be asked again; -1 means nobody does."""
    kind, _, name = role.partition(":")
    if kind == "leader":
        topic, _, partition = name.rpartition("/")
        return lambda: cluster.describe(topic)[int(partition)].leader
    if kind == "txn-coordinator":
        return lambda: cluster.txn_coordinator(name)
    if kind == "group-coordinator":
        return lambda: cluster.group_coordinator(name)
    if kind == "controller":
        return cluster.controller
    raise FaultFailed(f"no broker has the role {role}")


def worker_in_role(processes: Processes, role: str) -> Member:
    """The living worker of that name, or one of its stage that has work if it has none."""
    stage, _, worker = role.removeprefix("worker:").partition("/")
    living = processes.workers(stage)
    if not living:
        raise FaultFailed(f"no worker of {stage} is alive")
    named = [member for member in living if member.worker == worker]
    busy = [member for member in living if "counts" in member.told]
    return next(iter([member for member in named if member in busy] or busy or named or living))


def worker_at(processes: Processes, slot: str) -> Member:
    """The living worker in a client slot; if it has nothing to do, one that has: else nothing is hit."""
    living = processes.workers()
    if not living:
        raise FaultFailed("no worker is alive whose link could be cut")
    named = [member for member in living if member.slot == slot]
    at_work = [member for member in living if member.told.get("counts", {}).get("inputs")]
    return next(iter([member for member in named if member in at_work] or at_work or named or living))
