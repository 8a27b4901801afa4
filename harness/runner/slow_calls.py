"""Tracks client calls of workers that take too long.

A separate thread of the worker reports such a call (`harness.roles.control`). If the call returns, it leads to a
warning. If the run has to kill the worker during the call, the verdict is unknown, because the operation has no
completion.
"""

from harness.common.errors import FencepostError
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Role
from harness.results.reasons import Reason, ReasonCode
from harness.runner.nemesis import FaultContext
from harness.runner.run_log import RunLog, SlowCall
from harness.runner.run_process import STOP_TIMEOUT_S, RunProcess

GROUP_CALL = "send_offsets_to_transaction"


def update_slow_calls(context: FaultContext, run_log: RunLog) -> None:
    """Update the list of long calls from the reports of the workers, and show new ones."""
    now_s = run_log.now_s()
    for process in list(context.processes.all_processes):
        since_ns = process.status.slow_call_since_ns
        for slow_call in run_log.slow_calls:
            ended = since_ns / 1e9 != slow_call.since_s or not process.alive
            if slow_call.journal == process.journal and slow_call.until_s is None and ended:
                slow_call.until_s = now_s
        known = any(
            (slow_call.journal, slow_call.since_s) == (process.journal, since_ns / 1e9)
            for slow_call in run_log.slow_calls
        )
        if since_ns and not known and process.role is Role.WORKER and process.alive:
            slow_call = SlowCall(
                process.journal, process.status.slow_call, since_ns / 1e9, _clauses(process, context, run_log)
            )
            run_log.slow_calls.append(slow_call)
            run_log.progress.say(slow_call.reason(now_s).text)


def explain_kill(process: RunProcess, context: FaultContext, run_log: RunLog) -> Reason:
    """Return the reason for a process that had to be killed at the end.

    The reason names the call in which the process waited.
    """
    slow_calls = [
        slow_call
        for slow_call in run_log.slow_calls
        if slow_call.journal == process.journal and slow_call.until_s is None
    ]
    if not slow_calls:
        message = f"{process.journal} did not end within {STOP_TIMEOUT_S:g} s and was killed"
        return Reason(ReasonCode.DID_NOT_END, message, process.journal)
    (slow_call,) = slow_calls
    run_log.slow_calls.remove(slow_call)
    slow_call.clauses = _clauses(process, context, run_log)  # the coordinator may have changed
    return slow_call.reason(run_log.now_s(), ", and was killed")


def _clauses(process: RunProcess, context: FaultContext, run_log: RunLog) -> str:
    """Return the end of a sentence: the broker that should answer the worker's current call, and what is known of the
    client.
    """
    stage = next((stage for stage in context.stages if stage.name == process.stage), None)
    coordinator = _coordinator(process, stage, context) if stage else ""
    notes, call = run_log.client_notes, process.status.slow_call
    return coordinator + (f"; known of this client: {notes}" if call and call in notes else "")


def _coordinator(process: RunProcess, stage: StageSpec, context: FaultContext) -> str:
    transactional_id = stage.transactional_ids.get(process.worker or "")
    try:
        if process.status.slow_call == GROUP_CALL and stage.group is not None:
            broker = context.cluster.group_coordinator(stage.group)
            return f"; the coordinator of its group {stage.group} is broker {broker} now"
        if transactional_id is not None:
            broker = context.cluster.txn_coordinator(transactional_id)
            return f"; the coordinator of its transactional id {transactional_id} is broker {broker} now"
    except FencepostError:
        return "; its coordinator is not known now"
    return ""
