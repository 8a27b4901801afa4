"""Quiesce a run after its faults: wait until nothing changes any more, then read the final state.

The steps are: heal the network; wait until the stages have processed their inputs; stop all workers, including zombies;
wait until no transaction is open, at most for the longest transaction time-out; start the final readers and mark the
ends of the partitions. A step that fails is an evidence problem, so the verdict is at best unknown.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure, FencepostError, WaitTimeout
from harness.common.waiting import wait_for, wait_while_progressing
from harness.common.wording import plural
from harness.model.pipeline import PipelineSpec, StageSpec, TopicPartition
from harness.model.vocabulary import Role
from harness.record.naming import partition_key
from harness.results.reasons import Reason, ReasonCode
from harness.runner.end_markers import EndMarkers
from harness.runner.final_reads import read_all
from harness.runner.nemesis import FaultContext
from harness.runner.run_log import RunLog, explain_kill, update_slow_calls
from harness.witness import LogBounds


@dataclass(frozen=True)
class DrainTimeouts:
    """How long each step may take, in seconds. `drain_s` and `reads_s` count only the time without progress."""

    in_sync_s: float = 90.0
    drain_s: float = 60.0  # without a commit
    # Added to the longest transaction time-out: the coordinator's check interval and a margin.
    clean_up_s: float = 6.0
    reads_s: float = 60.0  # without a record
    every_s: float = 0.2


@dataclass(frozen=True)
class FinalState:
    """The state of the cluster at the end of a run. All fields are empty if it could not be read."""

    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    compacted: Mapping[str, bool] = field(default_factory=dict)  # by topic
    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    unreadable_logs: Mapping[str, str] = field(
        default_factory=dict
    )  # by topic: why its log could not be read


def quiesce(
    pipeline: PipelineSpec,
    context: FaultContext,
    ends: EndMarkers,
    run_log: RunLog,
    timeouts: DrainTimeouts,
) -> FinalState:
    """Quiesce the run and read the final state.

    A step that fails is an evidence problem. The other steps are still made.
    """
    cluster, processes = context.cluster, context.processes
    topics = [topic.name for topic in pipeline.topics]
    attempt = partial(_attempt, run_log)
    with run_log.phase("heal"):
        attempt(ReasonCode.NOT_HEALED, "the network was not healed", cluster.network.heal)
        attempt(
            ReasonCode.NOT_IN_SYNC,
            "the brokers did not get back in sync",
            partial(cluster.await_in_sync, timeouts.in_sync_s, topics),
        )
    with run_log.phase("drain"):
        for stage in pipeline.stages:
            attempt(
                ReasonCode.NOT_DRAINED,
                f"{stage.name} did not process all its inputs",
                partial(_drain, context, run_log, ends, pipeline, stage, timeouts),
                stage.name,
                _remedy(stage),
            )
        _stop(run_log, context, Role.WORKER)
        for journal, unread in processes.unread():
            run_log.add_problem(
                ReasonCode.READER_SHORT, f"{journal} did not read {unread} partitions to their ends", journal
            )
        attempt(
            ReasonCode.TRANSACTION_OPEN,
            "a transaction remained open",
            partial(_await_no_transaction, ends, pipeline, timeouts, run_log),
        )
        not_drained = {
            each.subject for each in run_log.evidence_problems if each.code is ReasonCode.NOT_DRAINED
        }
        for stage in pipeline.stages:
            attempt(
                ReasonCode.INPUTS_LEFT,
                f"{stage.name} left inputs unprocessed",
                partial(_require_drained, ends, stage, timeouts, run_log),
                stage.name,
                _remedy(stage),
                because=stage.name if stage.name in not_drained else "",
            )
        run_log.stage_progress = ends.progress
        _stop(run_log, context, Role.OBSERVER, Role.FEEDER)
    with run_log.phase("final reads"):
        _read_to_the_ends(pipeline, context, ends, run_log, timeouts)
        final_state = _read_cluster_state(cluster, pipeline, run_log)
    with run_log.phase("brokers' logs"):
        return _read_broker_logs(cluster, final_state, processes.folder, run_log)


def _read_broker_logs(cluster: Cluster, final_state: FinalState, folder: Path, run_log: RunLog) -> FinalState:
    """Fetch the broker logs now, if the witness needs a running cluster. Segment files are read later."""
    witness = cluster.witness()
    if witness is None:
        return final_state
    _attempt(
        run_log,
        ReasonCode.LOGS_NOT_READ,
        "the brokers' logs could not be read",
        partial(witness.collect, final_state.bounds, folder),
    )
    compacted = {
        topic: compacted and topic not in witness.complete_topics
        for topic, compacted in final_state.compacted.items()
    }
    return replace(final_state, compacted=compacted, unreadable_logs=witness.unreadable)


def _attempt(
    run_log: RunLog,
    code: ReasonCode,
    failure: str,
    act: Callable[[], None],
    subject: str = "",
    remedy: str = "",
    because: str = "",
) -> None:
    try:
        act()
    except FencepostError as error:
        run_log.add_problem(code, f"{failure}: {error}", subject, remedy, because)


def _remedy(stage: StageSpec) -> str:
    """Return what to do if a stage has not processed all its inputs. Empty: what the reason's code says."""
    if stage.journaled:
        return ""
    slowly = "if it only needs longer to start, write a longer works_within_s in its [[stage]]"
    if stage.progress:
        return f"run its [stage.progress] by hand, and read the logs of its instances in workers/; {slowly}"
    if stage.group is None:
        return (
            f"read the logs of its instances in workers/; {slowly}; if it never stops to write, let [stage.progress] "
            "print what it has processed"
        )
    return (
        "read the logs of its instances in workers/ at the time of the last commit, which the report names for each "
        f"partition that is left; {slowly}"
    )


def _stop(run_log: RunLog, context: FaultContext, *roles: Role) -> None:
    processes = context.processes
    update = partial(update_slow_calls, context, run_log)
    for killed in processes.stop(list(processes.alive_in_roles(*roles)), update):
        if killed.rules is None:
            run_log.evidence_problems.append(explain_kill(killed, context, run_log))
        else:  # a custom pipeline had committed all its inputs before, so no evidence is lost
            signal, within_s = killed.rules.stop_signal, killed.rules.stop_within_s
            message = f"{killed.journal} did not end within {within_s:g} s after {signal}, and was killed"
            run_log.unexpected_errors.append(Reason(ReasonCode.DID_NOT_STOP, message, killed.journal))


def _drain(
    context: FaultContext,
    run_log: RunLog,
    ends: EndMarkers,
    pipeline: PipelineSpec,
    stage: StageSpec,
    timeouts: DrainTimeouts,
) -> None:
    """Wait until the stage has committed all its visible inputs. Give up when it makes no progress.

    Workers that only abort and retry do not make progress. If an input topic got partitions during the run, the stage
    may take `metadata_max_age_s` to notice them. Note the new partitions that its group did not read in that time.
    """
    processes = context.processes
    added = _added_partitions(context.cluster, pipeline, stage.reads)
    notice_s = stage.metadata_max_age_s if added else 0.0
    remaining: list[int | None] = [None]
    fewest: list[int] = []

    def drained() -> bool:
        if problem := context.cluster.network.problem:
            raise EnvironmentFailure(f"a process that carries the links of the run has ended: {problem}")
        processes.replace_dead()
        update_slow_calls(context, run_log)
        over = stage.is_job and processes.is_over(stage.name)  # before the inputs are counted
        remaining[0] = ends.inputs_left(
            stage, starting=stage.group is None and not stage.progress and processes.is_starting(stage.name)
        )
        fewest[:] = [min([*fewest, remaining[0]])] if remaining[0] is not None else fewest
        if remaining[0] and over:
            raise EnvironmentFailure(
                f"{plural(remaining[0], 'input')} left, and its instances have ended with status 0: add every_s to "
                f"[[stage]] {stage.name}, so that they are started again"
            )
        return remaining[0] == 0

    def progress() -> tuple[int, ...]:
        counts = processes.counts()
        return (*fewest, counts.inputs, counts.committed, ends.outputs_written(stage))

    awaited = f"{stage.group or stage.name} to {'commit' if stage.group else 'process'} all of {', '.join(stage.reads)}"
    quiet_s = 0.0
    if stage.group is None and not stage.progress:
        awaited, quiet_s = f"{stage.name} to write nothing for {stage.idle_s:g} s", stage.idle_s
    try:
        wait_while_progressing(
            drained,
            progress,
            awaited,
            timeouts.drain_s + quiet_s + notice_s + (stage.every_s or 0.0) + (stage.works_within_s or 0.0),
            every_s=timeouts.every_s,
            last_seen=lambda: _left_in_words(ends, stage, remaining[0]),
            report_wait=run_log.progress.say,
        )
    except WaitTimeout:
        skipped = sorted(ends.unread(stage))
        # Every other partition is processed to its end. If a member has one of these, the group may be stuck there.
        assigned = context.cluster.assigned(stage.group) if stage.group and skipped else None
        if skipped and added.issuperset(skipped) and assigned is not None and assigned.isdisjoint(skipped):
            run_log.passed_over[stage.group or stage.name] = [partition_key(*each) for each in skipped]
        raise


def _added_partitions(
    cluster: Cluster, pipeline: PipelineSpec, topics: Sequence[str]
) -> frozenset[TopicPartition]:
    """Return the partitions that these topics of the pipeline got during the run. Raises `WaitTimeout`."""
    own = {topic.name for topic in pipeline.topics}.intersection(topics)
    return (
        frozenset(cluster.log_offsets(sorted(own)).keys() - set(pipeline.topic_partitions))
        if own
        else frozenset()
    )


def _left_in_words(ends: EndMarkers, stage: StageSpec, left: int | None) -> str:
    number = "an unknown number of inputs" if left is None else plural(left, "input")
    seen = ends.last_seen(stage)
    return f"{number} left; {seen}" if seen else f"{number} left"


def _require_drained(ends: EndMarkers, stage: StageSpec, timeouts: DrainTimeouts, run_log: RunLog) -> None:
    """Raise `EnvironmentFailure` if inputs are not committed after all workers have ended."""
    (count,) = wait_for(
        lambda: (remaining,) if (remaining := ends.inputs_left(stage, ended=True)) is not None else None,
        f"{stage.name} to show how many inputs are left",
        timeouts.drain_s,
        every_s=timeouts.every_s,
        last_seen=lambda: _left_in_words(ends, stage, None),
        report_wait=run_log.progress.say,
    )
    if count:
        seen = f": {words}" if (words := ends.last_seen(stage)) else ""
        raise EnvironmentFailure(
            f"{plural(count, 'input')} in {', '.join(stage.reads)} {'is' if count == 1 else 'are'} not "
            f"{'committed' if stage.group else 'processed'}{seen}"
        )


def _await_no_transaction(
    ends: EndMarkers, pipeline: PipelineSpec, timeouts: DrainTimeouts, run_log: RunLog
) -> None:
    """Wait until no transaction is open in the pipeline's topics and in the offsets partitions of its groups."""
    topics = sorted(topic.name for topic in pipeline.topics)
    groups = [stage.group for stage in pipeline.stages if stage.group is not None]
    open_at: list[str] = []

    def closed() -> bool:
        open_at[:] = ends.open_transactions(topics, groups)
        return not open_at

    longest_ms = max((stage.txn_timeout_ms for stage in pipeline.stages), default=0)
    timeout_s = longest_ms / 1000 + timeouts.clean_up_s
    wait_for(
        closed,
        "no transaction to be open",
        timeout_s,
        every_s=timeouts.every_s,
        last_seen=lambda: open_at,
        report_wait=run_log.progress.say,
    )


def _read_to_the_ends(
    pipeline: PipelineSpec, context: FaultContext, ends: EndMarkers, run_log: RunLog, timeouts: DrainTimeouts
) -> None:
    """Run the final readers until they have read to the ends, which are marked while the readers start.

    They read also the partitions that topics of the pipeline got during the run.
    """
    attempt = partial(_attempt, run_log)
    topic_partitions = list(pipeline.topic_partitions)

    def add_partitions() -> None:
        topics = [topic.name for topic in pipeline.topics]
        topic_partitions.extend(sorted(_added_partitions(context.cluster, pipeline, topics)))

    not_marked = ReasonCode.NO_SENTINELS, "the ends of the partitions were not marked"

    def read() -> None:
        offsets = context.cluster.log_offsets([topic.name for topic in pipeline.topics])
        records = sum(high - start for start, _, high in offsets.values())
        tables = [table.name for table in pipeline.tables]
        mark = partial(attempt, *not_marked, partial(ends.mark_ends, topic_partitions))
        read_all(
            context.processes,
            topic_partitions,
            records,
            timeouts.reads_s,
            tables,
            end_offsets=ends.end_offsets,
            on_started=mark,
        )

    attempt(ReasonCode.ENDS_UNKNOWN, "the partitions at the end of the run are not known", add_partitions)
    attempt(
        ReasonCode.NO_SENTINELS,
        "the end offsets of the partitions could not be read",
        partial(ends.resolve_ends, topic_partitions),
    )
    if ends.end_offsets:
        run_log.end_offsets_read_ms = time.time() * 1000
    attempt(ReasonCode.READER_SHORT, "the final readers did not read to the end", read)


def _read_cluster_state(cluster: Cluster, pipeline: PipelineSpec, run_log: RunLog) -> FinalState:
    """Read leaders, end offsets and topic settings, and report replicas that are out of sync.

    For a custom pipeline, this includes the topics that its programs have created.
    """
    topics = [topic.name for topic in pipeline.topics]
    all_topics = [*topics, *pipeline.internal_topics]
    try:
        if not pipeline.journaled:
            all_topics += [topic for topic in cluster.topics() if topic not in topics]
        out_of_sync = cluster.out_of_sync(topics)
        views = {
            (topic, partition): view
            for topic in all_topics
            for partition, view in cluster.describe(topic).items()
        }
        ends = cluster.log_offsets(all_topics)
        compacted = cluster.compacted(all_topics)
    except FencepostError as error:
        run_log.add_problem(
            ReasonCode.ENDS_UNKNOWN, f"the end offsets of the partitions could not be read: {error}"
        )
        return FinalState()
    if out_of_sync:
        run_log.add_problem(
            ReasonCode.NOT_IN_SYNC_AT_THE_END,
            f"not all replicas were in sync after the final reads: {'; '.join(out_of_sync[:5])}",
        )
    return FinalState(
        {topic_partition: view.leader for topic_partition, view in views.items()},
        {topic_partition: high for topic_partition, (_, _, high) in ends.items()},
        compacted,
        {
            topic_partition: LogBounds(
                views[topic_partition].leader, start, high, views[topic_partition].topic_id
            )
            for topic_partition, (start, _, high) in ends.items()
            if topic_partition in views
        },
    )
