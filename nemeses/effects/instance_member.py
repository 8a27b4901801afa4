"""An instance of a custom pipeline as the target of a fault.

It reports nothing. So the state of its transaction is read from its coordinator, its ids from its requests, and what
others have taken over from its group. The group removes a member after its session time-out, which the program sets
(Kafka's default is 45 s).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random

from harness.cluster import Ability, TransactionView
from harness.common.errors import FaultFailed, StartFailed, WaitTimeout, in_words
from harness.network import Cut, LinkMeter, client_links_by_broker
from harness.runner.nemesis import (
    DrawnFault,
    ExtraNeeds,
    FaultContext,
    FaultTargets,
    NotForThisPipeline,
    PlannedFault,
    Resource,
    Target,
    TargetMissing,
    uses_brokers_and_workers,
    uses_workers,
)
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import GOAL, describe_transaction
from nemeses.aiming.observed_ids import (
    IDENTIFY_TIMEOUT_S,
    find_member_ids,
    find_transactional_id,
    observe_client,
)
from nemeses.aiming.targets import choose, worker_in_role
from nemeses.effects.brokers import IN_SYNC_TIMEOUT_S
from nemeses.effects.instance_states import (
    BEFORE_OFFSETS,
    OFFSETS_ADDED,
    ONGOING,
    PREPARE_COMMIT,
    PREPARES_S,
    stop_in,
    stop_prepared,
)
from nemeses.effects.member import ZOMBIE, Member
from nemeses.effects.membership import await_gone, await_inputs_committed, members

STATES = frozenset({ONGOING, BEFORE_OFFSETS, OFFSETS_ADDED, PREPARE_COMMIT})
"""The states of a transaction in which an instance can be stopped. The transaction is open; or it is open, and the
instance has not added its offsets yet, or has added them; or it is decided, and some markers are not written yet.
"""
EXTRA_NEEDS = {PREPARE_COMMIT: ExtraNeeds(PREPARES_S, frozenset({Ability.PEER_LINKS, Cut}), least_brokers=2)}
"""By state: what a fault needs in addition. For prepare-commit, links between brokers are cut to hold back markers."""
OPEN_SHARE = 2 / 3
"""The share of faults without a chosen state that wait for an open transaction. Without the wait they would rarely meet
one, because most programs have an open transaction only for a small part of the time. The other faults do not wait,
because a program may also fail between two transactions.
"""
OPEN_TIMEOUT_S = 5.0
"""How long such a fault waits for an open transaction."""
COME_BACK_TIMEOUT_S = 20.0
MOST_SUCCESSORS = 3
"""How often a fault takes the replacement as its target, if the target ends by itself before the injection."""


def occupied_resources(planned: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault on an instance. If markers are held back, it also occupies the brokers."""
    holds_markers_back = planned.state == PREPARE_COMMIT
    return uses_brokers_and_workers(planned) if holds_markers_back else uses_workers(planned)


def any_instance(
    rng: Random, targets: FaultTargets, *, least: int = 1, prefers: str = ONGOING, share: float = OPEN_SHARE
) -> DrawnFault:
    """Draw an instance of a stage that `any_stage` draws. Raises `NoTarget`.

    Args:
        rng: The source of randomness.
        targets: All possible targets.
        least: The number of instances that the stage must have.
        prefers: The state of its transaction for which the fault waits a short time.
        share: The share of the faults that wait for it, if the stage has transactions.
    """
    stage = any_stage(rng, targets, least)
    target = Target("worker", f"{stage}/{rng.choice(targets.workers[stage])}")
    transactional = bool(targets.transactional_ids.get(stage)) or stage in targets.stages_with_unknown_ids
    return DrawnFault(target, {"prefers": prefers} if transactional and rng.random() < share else {})


def any_stage(rng: Random, targets: FaultTargets, least: int = 1) -> str:
    """Draw a stage of a custom pipeline.

    Args:
        rng: The source of randomness.
        targets: All possible targets.
        least: The number of instances that the stage must have.

    Raises:
        NotForThisPipeline: No stage belongs to a custom pipeline.
        NoTarget: No stage has enough instances.
    """
    stages = [
        stage
        for stage, names in sorted(targets.workers.items())
        if names and not targets.steps.get(stage) and targets.stage in (None, stage)
    ]
    if not stages:
        raise NotForThisPipeline("a custom pipeline (--pipeline)")
    return choose(
        rng,
        [stage for stage in stages if len(targets.workers[stage]) >= least],
        f"a stage with {least} instances or more, so that others take over (`instances` in the file)",
    )


def in_groups(targets: FaultTargets) -> FaultTargets:
    """Return only the targets of stages with a consumer group. Raises `NotForThisPipeline` if there is none."""
    workers = {stage: names for stage, names in targets.workers.items() if stage in targets.groups}
    if not workers:
        raise NotForThisPipeline("a custom pipeline (--pipeline) with a group")
    return replace(targets, workers=workers)


class InstanceMember(Member):
    """An instance that a fault stops, if possible in a state of its transaction."""

    noun = "instance"

    def __init__(
        self, context: FaultContext, planned: PlannedFault, process: RunProcess, unready: str = ""
    ) -> None:
        super().__init__(context, planned, process, unready)
        self._own_ids: frozenset[str] = frozenset()  # its member ids in its group; empty: not known
        self._first_members: frozenset[str] = frozenset()  # of its group, before the fault
        # Right before it was resumed: what counts the bytes on the links of its client, if it has links, and the
        # members of its group, if the group was stable.
        self._meter: LinkMeter | None = None
        self._last_members: frozenset[str] | None = None

    @classmethod
    def find(cls, context: FaultContext, planned: PlannedFault) -> "InstanceMember":
        """Wait until the stage of an instance is ready and writes, and return the instance.

        A fault on a starting program tests little. Wait at most for `StageSpec.working_timeout_s`. If the instance
        ended in the meantime, return its replacement. Raises `TargetMissing` if no instance of the stage was running.
        """
        process, unready = _await_working(context, planned.target)
        return cls(context, planned, process, unready)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Stop the instance. If the fault is aimed at a state of its transaction, stop it in that state.

        If the instance ends by itself before it is stopped, its replacement becomes the target. This happens at most
        `MOST_SUCCESSORS` times. If it is stopped in a state, its transaction stays in this state until the end of the
        `with`.
        """
        with ExitStack() as cut:
            with ExitStack() as if_not_stopped:
                if_not_stopped.callback(self._resume)  # a stop that took too long may still come
                stopped = self._stop_or_successor(cut)
                if stopped:
                    if_not_stopped.pop_all()
            self.note_unready()
            yield stopped

    @contextmanager
    def held_with_inputs(self, replaced: bool) -> Iterator[bool]:
        """Stop the instance when its group is stable, so that the fault can see that the group goes on without it."""
        try:
            self._first_members = members(self.context, self.process)
        except WaitTimeout as error:
            self.effect.unmet_goals[ZOMBIE] = str(error)
            yield False
            return
        with self.held() as stopped:
            yield stopped

    def _resume(self) -> None:
        self.process.child.resume()

    def _stop_or_successor(self, cut: ExitStack) -> bool:
        for successors_left in range(MOST_SUCCESSORS, -1, -1):
            if self._first_members:  # the fault waits until the group has gone on without these
                self._own_ids = find_member_ids(self.context, self.process)
            stopped = self._stop(cut)
            successor = None if stopped or not successors_left else self._successor()
            if successor is None:
                break
            self.effect.proof.append(
                f"{self.process.journal} ended by itself before the injection: {self.process.last_output()}"
            )
            self.effect.unmet_goals.pop(GOAL, None)
            self._aim_at(successor)
        return stopped

    def _successor(self) -> RunProcess | None:
        """Wait until the replacement of an instance that ended by itself is ready.

        None if the instance did not end, or if no replacement was ready in time.
        """
        process, processes = self.process, self.context.processes
        if process.alive or process.stage is None:
            return None
        stage = process.stage

        def find_replacement() -> RunProcess | None:
            living = (other for other in processes.workers(stage) if other.worker == process.worker)
            return None if processes.is_starting(stage) else next(living, None)

        try:
            awaited = f"an instance to replace {process.journal}"
            return self.context.wait_for(find_replacement, awaited, self.stage.working_timeout_s, every_s=0.1)
        except WaitTimeout:
            return None

    def _stop(self, cut: ExitStack) -> bool:
        state = self.planned.state
        if state is None:
            return self._stop_in_open() or self._stop_now()
        transactional_id = self._transactional_id()
        if transactional_id is None:
            self.effect.unmet_goals[GOAL] = self._why_id_is_unknown()
            return False
        try:
            if state == PREPARE_COMMIT:
                view = stop_prepared(self.context, self.process, transactional_id, cut)
            else:
                view = stop_in(self.context, self.process, transactional_id, state)
        except WaitTimeout as error:
            self.effect.unmet_goals[GOAL] = str(error)
            return False
        markers = ""
        if state == PREPARE_COMMIT:
            coordinator = self.context.cluster.txn_coordinator(transactional_id)
            markers = f": {describe_transaction(coordinator, transactional_id, view)}"
        self._note_stopped(transactional_id, view, markers)
        self.effect.details["state"] = state
        return True

    def _stop_in_open(self) -> bool:
        """Stop the instance in an open transaction, if the fault prefers that. Return false if none opens soon."""
        state = self.planned.preferred_state
        if state is None or (transactional_id := self._transactional_id()) is None:
            return False
        try:
            view = stop_in(self.context, self.process, transactional_id, state, OPEN_TIMEOUT_S)
        except WaitTimeout:
            return False
        self._note_stopped(transactional_id, view)
        return True

    def _stop_now(self) -> bool:
        self.effect.mark_injected()
        try:
            self.effect.proof.append(self.process.child.pause())
        except WaitTimeout as error:  # it had just ended, as a fenced instance should
            self.effect.unmet_goals[GOAL] = str(error)
            return False
        return True

    def _note_stopped(self, transactional_id: str, view: TransactionView, markers: str = "") -> None:
        self.effect.mark_injected()
        topics = ", ".join(sorted({topic for topic, _ in view.partitions}))
        self.effect.proof.append(
            f"{self.process.journal} was stopped while {transactional_id} was {view.state} with {topics}{markers}"
        )
        self.effect.details["transactional_id"] = transactional_id

    def _transactional_id(self) -> str | None:
        """Return the transactional id that is declared or seen in a request. None if it is not known."""
        declared = self.stage.transactional_ids.get(self.process.worker or "")
        return declared or find_transactional_id(self.context, self.process)

    def _why_id_is_unknown(self) -> str:
        journal = self.process.journal
        why = (
            f"the transactional id of {journal} is not known, because no protocol proxy is on its links"
            if observe_client(self.context, self.process) is None
            else f"{journal} sent no request with a transactional id for "
            f"{self.context.scaled(IDENTIFY_TIMEOUT_S):g} s"
        )
        return f"{why}: name the id in its [[stage]], or set transactions = false there if it has none"

    def pause(self) -> None:
        """Do nothing, because an instance that is held is stopped."""

    def replace(self) -> RunProcess:
        """Start the next incarnation of the instance."""
        return self.context.processes.replace(self.process)

    def await_others(self, replaced: bool) -> str:
        """Wait until the group goes on without the instance; without a replacement, also with its inputs."""
        now = self.context.cluster.members(self.process.group or "")
        before = self._first_members if now is None else frozenset(now)
        replacement = self.replace() if replaced else None
        departure = await_gone(self.context, self.process, self._own_ids & before, before)
        if not departure:
            return ""
        if replacement is None:
            return self._await_inputs_committed(departure)
        try:
            self.context.processes.await_ready([replacement])
        except (StartFailed, WaitTimeout) as error:  # the run starts another one
            self.effect.proof.append(str(error))
        return departure

    def _await_inputs_committed(self, departure: str) -> str:
        try:
            committed = await_inputs_committed(self.context, self.process)
        except WaitTimeout as error:
            self.effect.unmet_goals[ZOMBIE] = (
                f"{departure}; but the others did not process its inputs: {error}"
            )
            return ""
        proof = f"{departure}; {committed}"
        transactional_id = self.effect.details.get("transactional_id")
        if transactional_id is not None:
            view = self.context.cluster.describe_transaction(transactional_id)
            proof += f"; {transactional_id} was {view.state if view else 'not known'} before it was resumed"
        return proof

    def observe(self) -> None:
        """Note the traffic of its client and the members of its group."""
        network = self.context.cluster.network
        links = client_links_by_broker(self.process.endpoint, network.links).values()
        group_members = self.context.cluster.members(self.process.group or "")
        self._meter = network.meter(links) if links else None
        self._last_members = None if group_members is None else frozenset(group_members)

    def resume(self, replaced: bool) -> None:
        """Resume the instance. It learns from the brokers that others have taken over."""
        self._resume()

    def prove_return(self, progress: str) -> None:
        """Wait until the instance has ended, sent requests or rejoined."""
        journal, effect = self.process.journal, self.effect
        if not progress:
            effect.unmet_goals.setdefault(
                ZOMBIE, f"{journal} was paused, but its group did not go on without it"
            )
            return
        try:
            effect.add_proof(f"{progress}; then {self._await_activity()}")
        except WaitTimeout as error:
            effect.unmet_goals[ZOMBIE] = f"{progress}; but then {journal} did nothing: {error}"

    def _await_activity(self) -> str:
        """Return a sentence that says what the instance did after it was resumed.

        Watch it for `COME_BACK_TIMEOUT_S`, or until it ends. Within this time its client sends a heartbeat, and learns
        that the group has gone on without it. Raises `WaitTimeout` if the instance did nothing.
        """
        process, timeout_s = self.process, self.context.scaled(COME_BACK_TIMEOUT_S)
        try:
            process.child.wait(timeout_s)
        except WaitTimeout:
            activity = self._activity(timeout_s)
            return f"{process.journal} came back, {activity}, and still runs after {timeout_s:g} s"
        return f"{process.journal} came back and ended: {process.last_output()}"

    def _activity(self, timeout_s: float) -> str:
        traffic = self._meter.traffic() if self._meter else None
        if traffic is not None:
            if sent := sum(on_link.requests for on_link in traffic.values()):
                return f"sent {sent} bytes of requests"
            raise WaitTimeout("it to end or to send a request", timeout_s, "it runs, and has sent no byte")
        group = self.process.group or ""
        if new_ids := find_member_ids(self.context, self.process):  # its earlier ids have all left the group
            return f"rejoined its group {group} ({', '.join(sorted(new_ids))})"
        now = self.context.cluster.members(group)
        new = frozenset(now or ()) - self._last_members if self._last_members is not None else frozenset()
        if new:
            return f"{', '.join(sorted(new))} joined its group {group} (it is not known whether this was the instance)"
        last_seen = f"it runs, and the members of {group} are: {in_words(now)}"
        raise WaitTimeout(f"it to end or to rejoin {group}", timeout_s, last_seen)

    def await_recovery(self) -> None:
        """If markers were held back, wait until the coordinator's replicas are in sync again."""
        if self.planned.state == PREPARE_COMMIT:
            self.context.cluster.await_in_sync(IN_SYNC_TIMEOUT_S, self.context.topics)


def _await_working(context: FaultContext, target: Target) -> tuple[RunProcess, str]:
    """Return an instance whose stage works, and the reason why the stage was not seen to write; "" if it was."""
    stage = next(stage for stage in context.stages if stage.name == target.name.partition("/")[0])
    counts: list[int] = []
    last_seen = ""
    process: RunProcess | None = None  # a job may end at any time

    def works() -> bool:
        nonlocal last_seen, process
        try:
            process = worker_in_role(context.processes, target)
        except FaultFailed:
            last_seen = "none of its instances is alive"
            return False
        if context.processes.is_starting(stage.name):
            last_seen = "an instance of it is not ready yet"
            return False
        written = sum(high for _, _, high in context.cluster.log_offsets(stage.writes).values())
        counts.append(written)
        last_seen = f"its output topics end at {written} records, as at the first look"
        return written > counts[0]

    unready = ""
    try:
        awaited = f"{stage.name} to write"
        context.wait_for(works, awaited, stage.working_timeout_s, every_s=0.1, last_seen=lambda: last_seen)
    except WaitTimeout as error:
        unready = str(error)
    if process is None:
        raise TargetMissing(f"no instance of {stage.name} was running: {unready}")
    return process, unready
