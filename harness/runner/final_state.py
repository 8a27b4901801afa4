"""Bring a run to rest, so that what is then read is everything.

Heal; drain; stop and reap every worker, zombies too; wait until no transaction is open, or until
the longest time-out has passed; then start the final readers, and mark the ends up to which they read. What does not
come to rest is an evidence problem: the run is then at best unknown.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure, FencepostError
from harness.common.waiting import wait_for, wait_while_progressing
from harness.model.pipeline import PipelineSpec, StageSpec, TopicPartition
from harness.model.vocabulary import Role
from harness.results.reasons import Reason, ReasonCode
from harness.runner.end_markers import EndMarkers
from harness.runner.final_reads import read_all
from harness.runner.nemesis import FaultContext
from harness.runner.run_log import RunLog
from harness.runner.stalls import explain_kill, update_stalls
from harness.witness import LogBounds


@dataclass(frozen=True)
class DrainTimeouts:
    """How long each part of the end may take, in seconds; most of it without any progress."""

    in_sync_s: float = 90.0
    drain_s: float = 60.0  # without a commit
    clean_up_s: float = (
        6.0  # beyond the longest transaction time-out: the coordinator's interval and a margin
    )
    reads_s: float = 60.0  # without a record
    every_s: float = 0.2


@dataclass(frozen=True)
class FinalState:
    """What the cluster looked like once nothing moved any more."""

    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    compacted: Mapping[str, bool] = field(default_factory=dict)
    edges: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)  # by topic, why its log could not be read


def quiesce(
    pipeline: PipelineSpec,
    context: FaultContext,
    ends: EndMarkers,
    run_log: RunLog,
    patience: DrainTimeouts,
) -> FinalState:
    """Bring everything to rest and read it; what fails is an evidence problem, and the rest is still done."""
    cluster, processes = context.cluster, context.processes
    topics = [topic.name for topic in pipeline.topics]
    attempt = partial(_attempt, run_log)
    with run_log.phase("heal"):
        attempt(ReasonCode.NOT_HEALED, "the network was not healed", cluster.network.heal)
        attempt(
            ReasonCode.NOT_IN_SYNC,
            "the cluster did not recover",
            partial(cluster.await_in_sync, patience.in_sync_s, topics),
        )
    with run_log.phase("drain"):
        for stage in pipeline.stages:
            attempt(
                ReasonCode.NOT_DRAINED,
                f"{stage.name} did not finish its inputs",
                partial(_drain, context, run_log, ends, stage, patience),
                stage.name,
            )
        _stop(run_log, context, Role.WORKER)
        for journal, unread in processes.unread():
            run_log.add_problem(
                ReasonCode.READER_SHORT, f"{journal} did not read {unread} partitions to their ends", journal
            )
        attempt(
            ReasonCode.TRANSACTION_OPEN,
            "a transaction stayed open",
            partial(_await_no_transaction, ends, pipeline, patience),
        )
        for stage in pipeline.stages:
            attempt(
                ReasonCode.INPUTS_LEFT,
                f"{stage.name} left inputs behind",
                partial(_require_drained, ends, stage, patience),
                stage.name,
            )
        _stop(run_log, context, Role.OBSERVER, Role.FEEDER)
    with run_log.phase("final reads"):
        _read_to_the_ends(pipeline, context, ends, run_log, patience)
        quiet = _look(cluster, pipeline, run_log)
    with run_log.phase("brokers' logs"):
        return _witnessed(cluster, quiet, processes.folder, run_log)


def _witnessed(cluster: Cluster, quiet: FinalState, folder: Path, run_log: RunLog) -> FinalState:
    """Have the brokers' witness take what it can only have while the cluster is up."""
    witness = cluster.witness()
    if witness is None:
        return quiet
    _attempt(
        run_log,
        ReasonCode.LOGS_NOT_READ,
        "the brokers' logs could not be read",
        partial(witness.collect, quiet.edges, folder),
    )
    compacted = {
        topic: told and topic not in witness.complete_topics for topic, told in quiet.compacted.items()
    }
    return replace(quiet, compacted=compacted, refused=witness.unreadable)


def _attempt(
    run_log: RunLog, code: ReasonCode, what: str, act: Callable[[], None], subject: str = ""
) -> None:
    try:
        act()
    except FencepostError as error:
        run_log.add_problem(code, f"{what}: {error}", subject)


def _stop(run_log: RunLog, context: FaultContext, *roles: Role) -> None:
    processes = context.processes
    looked = partial(update_stalls, context, run_log)
    for killed in processes.stop(list(processes.others(*roles)), looked):
        if killed.rules is None:
            run_log.evidence_problems.append(explain_kill(killed, context, run_log))
        else:  # all that it had to do was done before: it takes nothing with it
            signal, within_s = killed.rules.stop_signal, killed.rules.stop_within_s
            words = f"{killed.journal} did not end within {within_s:g} s of {signal}, and was killed"
            run_log.unexpected_errors.append(Reason(ReasonCode.DID_NOT_STOP, words, killed.journal))


def _drain(
    context: FaultContext, run_log: RunLog, ends: EndMarkers, stage: StageSpec, patience: DrainTimeouts
) -> None:
    """Wait until the stage has committed everything that is visible in its inputs, as long as it gets on.

    Workers that only abort and begin again, however busily, do not get on.
    """
    processes = context.processes
    left: list[int | None] = [None]
    fewest: list[int] = []

    def drained() -> bool:
        processes.replace_dead()
        update_stalls(context, run_log)
        left[0] = ends.inputs_left(stage, starting=stage.group is None and processes.is_starting(stage.name))
        fewest[:] = [min([*fewest, left[0]])] if left[0] is not None else fewest
        return left[0] == 0

    def done() -> tuple[int, ...]:
        counts = processes.counts()
        return (*fewest, counts.inputs, counts.committed, ends.outputs_written(stage))

    wait_while_progressing(
        drained,
        done,
        f"{stage.group or stage.name} to commit all of {', '.join(stage.reads)}",
        patience.drain_s + (0.0 if stage.group else stage.idle_s),
        every_s=patience.every_s,
        last_seen=lambda: f"{'an unknown number of' if left[0] is None else left[0]} inputs left",
    )


def _require_drained(ends: EndMarkers, stage: StageSpec, patience: DrainTimeouts) -> None:
    """Once nothing moves, no input may be left that no commit has reached."""
    told = wait_for(
        lambda: (left,) if (left := ends.inputs_left(stage)) is not None else None,
        f"the inputs that {stage.name} has left to be known",
        patience.drain_s,
        every_s=patience.every_s,
    )
    if told[0]:
        raise EnvironmentFailure(f"{told[0]} inputs in {', '.join(stage.reads)} that no commit has reached")


def _await_no_transaction(ends: EndMarkers, pipeline: PipelineSpec, patience: DrainTimeouts) -> None:
    """Wait until no transaction is open, in the pipeline's topics and where its groups keep their offsets."""
    topics = sorted(topic.name for topic in pipeline.topics)
    groups = [stage.group for stage in pipeline.stages if stage.group is not None]
    open_at: list[str] = []

    def closed() -> bool:
        open_at[:] = ends.open_transactions(topics, groups)
        return not open_at

    longest_ms = max((stage.txn_timeout_ms for stage in pipeline.stages), default=0)
    bound_s = longest_ms / 1000 + patience.clean_up_s
    wait_for(
        closed, "no transaction to be open", bound_s, every_s=patience.every_s, last_seen=lambda: open_at
    )


def _read_to_the_ends(
    pipeline: PipelineSpec, context: FaultContext, ends: EndMarkers, run_log: RunLog, patience: DrainTimeouts
) -> None:
    """Run the final readers, each until it met every end of its partitions; the ends are marked while they start."""
    attempt, places = partial(_attempt, run_log), pipeline.places
    unmarked = ReasonCode.NO_SENTINELS, "the ends were not marked"

    def read() -> None:
        asked = context.cluster.log_offsets([topic.name for topic in pipeline.topics])
        records = sum(high - start for start, _, high in asked.values())
        tables = [table.name for table in pipeline.tables]
        mark = partial(attempt, *unmarked, partial(ends.mark_ends, places))
        read_all(
            context.processes, places, records, patience.reads_s, tables, until=ends.end_offsets, started=mark
        )

    attempt(*unmarked, partial(ends.resolve_ends, places))
    if ends.end_offsets:
        run_log.rested_ms = time.time() * 1000
    attempt(ReasonCode.READER_SHORT, "the final readers did not come to the end", read)


def _look(cluster: Cluster, pipeline: PipelineSpec, run_log: RunLog) -> FinalState:
    """Who leads what, how far each partition goes, and whether all replicas are still there. Of a user's pipeline also
    of the topics that its programs made themselves.
    """
    topics = [topic.name for topic in pipeline.topics]
    everything = [*topics, *pipeline.internal_topics]
    try:
        if not pipeline.journaled:
            everything += [topic for topic in cluster.topics() if topic not in topics]
        missing = cluster.out_of_sync(topics)
        views = {
            (topic, partition): view
            for topic in everything
            for partition, view in cluster.describe(topic).items()
        }
        ends = cluster.log_offsets(everything)
        compacted = cluster.compacted(everything)
    except FencepostError as error:
        run_log.add_problem(ReasonCode.ENDS_UNKNOWN, f"the ends of the logs could not be asked for: {error}")
        return FinalState()
    if missing:
        run_log.add_problem(
            ReasonCode.NOT_IN_SYNC_AT_THE_END, f"after the final reads {'; '.join(missing[:5])}"
        )
    return FinalState(
        {place: view.leader for place, view in views.items()},
        {place: high for place, (_, _, high) in ends.items()},
        compacted,
        {
            place: LogBounds(views[place].leader, start, high, views[place].topic_id)
            for place, (start, _, high) in ends.items()
            if place in views
        },
    )
