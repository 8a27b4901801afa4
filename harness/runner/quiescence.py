"""Bring a run to rest, so that what is then read is everything.

Heal; drain; stop and reap every worker, zombies too; wait until no transaction is open, or until
the longest time-out has passed; then sentinels and the final readers. What does not come to rest
is told as a shortfall: the run is then at best unknown.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.clients.ends import unread, write_sentinels
from harness.clients.librdkafka import TRANSACTION_TIMEOUT_MS
from harness.cluster import Cluster
from harness.errors import EnvironmentFailure, FencepostError, WaitTimeout
from harness.history import Isolation, Role
from harness.record.tables import StageFacts
from harness.runner.processes import Member, Processes
from harness.runner.run_log import RunLog
from harness.runner.schedule import FaultContext
from harness.waiting import wait_for

Place = tuple[str, int]
IN_SYNC_TIMEOUT_S = 90.0
DRAIN_TIMEOUT_S = 60.0
CLEAN_UP_INTERVAL_S = 1.0
MARGIN_S = 5.0
SENTINEL_TIMEOUT_S = 30.0
READ_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Quiet:
    """What the cluster looked like once nothing moved any more."""

    leaders: Mapping[Place, int]
    high_watermarks: Mapping[Place, int]


def quiesce(
    places: Sequence[Place], stages: Sequence[StageFacts], context: FaultContext, run_log: RunLog
) -> Quiet:
    """Bring everything to rest and read it; what fails is a shortfall, and the rest is still done."""
    cluster, processes = context.cluster, context.processes
    attempt = partial(_attempt, run_log)
    with run_log.phase("heal"):
        attempt("the network was not healed", context.network.heal)
        attempt("the cluster did not recover", partial(cluster.await_in_sync, IN_SYNC_TIMEOUT_S))
    with run_log.phase("drain"):
        for facts in stages:
            attempt(f"{facts.name} did not finish its inputs", partial(_drain, cluster, processes, facts))
        run_log.evidence_problems += processes.stop(list(processes.others(Role.WORKER)))
        attempt("a transaction stayed open", partial(_await_no_transaction, cluster, places))
        for facts in stages:
            attempt(f"{facts.name} left inputs behind", partial(_require_drained, cluster, facts))
        run_log.evidence_problems += processes.stop(list(processes.others(Role.OBSERVER, Role.FEEDER)))
    with run_log.phase("final reads"):
        attempt(
            "the sentinels were not written",
            partial(write_sentinels, cluster.bootstrap, places, SENTINEL_TIMEOUT_S),
        )
        attempt("the final readers did not come to the end", partial(_read_all, processes, places))
        return _look(cluster, places, run_log)


def _attempt(run_log: RunLog, what: str, act: Callable[[], None]) -> None:
    try:
        act()
    except FencepostError as error:
        run_log.evidence_problems.append(f"{what}: {error}")


def _drain(cluster: Cluster, processes: Processes, facts: StageFacts) -> None:
    """Wait until the group has committed everything that is visible in its input."""
    left: list[int] = []

    def drained() -> bool:
        processes.mend()
        ends = cluster.last_stable([facts.in_topic])
        if any(stable < high for _, stable, high in ends.values()):
            return False  # what is not committed yet may still become an input
        left[:] = [_inputs_left(cluster, facts)]
        return left == [0]

    wait_for(
        drained,
        f"{facts.group} to commit all of {facts.in_topic}",
        DRAIN_TIMEOUT_S,
        every_s=0.2,
        last_seen=lambda: f"{left[0] if left else 'an unknown number of'} inputs left",
    )


def _inputs_left(cluster: Cluster, facts: StageFacts) -> int:
    """How many visible inputs the group has not committed."""
    committed = cluster.committed(facts.group)
    ends = cluster.last_stable([facts.in_topic])
    behind = {
        place: max(committed.get(place, -1), start)
        for place, (start, stable, _) in ends.items()
        if max(committed.get(place, -1), start) < stable
    }
    return unread(cluster.bootstrap, behind)


def _require_drained(cluster: Cluster, facts: StageFacts) -> None:
    """Once nothing moves, no input may be left that no commit has reached."""
    left = _inputs_left(cluster, facts)
    if left:
        raise EnvironmentFailure(f"{left} inputs in {facts.in_topic} that no commit has reached")


def _await_no_transaction(cluster: Cluster, places: Sequence[Place]) -> None:
    """Wait until the last stable offset is the high watermark everywhere."""
    topics = sorted({topic for topic, _ in places})
    open_at: list[str] = []

    def closed() -> bool:
        ends = cluster.last_stable(topics)
        open_at[:] = [f"{t}/{p} at {stable}" for (t, p), (_, stable, high) in ends.items() if stable < high]
        return not open_at

    bound_s = TRANSACTION_TIMEOUT_MS / 1000 + CLEAN_UP_INTERVAL_S + MARGIN_S
    wait_for(closed, "no transaction to be open", bound_s, every_s=0.1, last_seen=lambda: open_at)


def _read_all(processes: Processes, places: Sequence[Place]) -> None:
    """Run a final reader at each isolation level, each until it met every sentinel."""
    readers = [
        processes.start_other(
            Role.FINAL, f"final-{level}", "harness", places=list(places), isolation=level.value
        )
        for level in Isolation
    ]
    processes.await_ready(readers)
    deadline = time.monotonic() + READ_PATIENCE_S
    try:
        for reader in readers:
            wait_for(
                partial(_ended, reader),
                f"{reader.journal} to meet every sentinel",
                deadline - time.monotonic(),
            )
    except WaitTimeout:
        processes.stop(readers)  # it then says how far it came, and the checkers take it from there
        raise


def _ended(reader: Member) -> bool:
    return not reader.alive


def _look(cluster: Cluster, places: Sequence[Place], run_log: RunLog) -> Quiet:
    """Who leads what, and how far each partition goes."""
    topics = [*sorted({topic for topic, _ in places}), "__consumer_offsets", "__transaction_state"]
    try:
        leaders = {
            (topic, partition): view.leader
            for topic in topics
            for partition, view in cluster.describe(topic).items()
        }
        ends = cluster.last_stable(topics)
    except FencepostError as error:
        run_log.evidence_problems.append(f"the ends of the logs could not be asked for: {error}")
        return Quiet({}, {})
    return Quiet(leaders, {place: high for place, (_, _, high) in ends.items()})
