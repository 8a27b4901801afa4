"""Workers that wait in a call of their client for longer than it may take: told while it lasts, and at the end.

A worker tells it by a thread of its own (`harness.roles.call_watch`). A call that comes back is a warning; a worker
that has to be killed in it makes the run unknown: what it had in hand was not brought to its end.
"""

from harness.common.errors import FencepostError
from harness.model.pipeline import StageSpec
from harness.model.vocabulary import Role
from harness.results.reasons import Reason, ReasonCode
from harness.runner.member import STOP_TIMEOUT_S, RunProcess
from harness.runner.nemesis import FaultContext
from harness.runner.run_log import RunLog, StuckCall

OF_GROUP = "send_offsets_to_transaction"


def update_stalls(context: FaultContext, run_log: RunLog) -> None:
    """Take in which workers wait too long now, and which no longer do."""
    now_s = run_log.now_s()
    for member in list(context.processes.members):
        since_ns = member.status.since_ns
        for stall in run_log.stalls:
            over = since_ns / 1e9 != stall.since_s or not member.alive
            if stall.journal == member.journal and stall.until_s is None and over:
                stall.until_s = now_s
        known = any((one.journal, one.since_s) == (member.journal, since_ns / 1e9) for one in run_log.stalls)
        if since_ns and not known and member.role is Role.WORKER and member.alive:
            stall = StuckCall(member.journal, member.status.waits, since_ns / 1e9, _whom(member, context))
            run_log.stalls.append(stall)
            run_log.progress.say(stall.reason(now_s).text)


def explain_kill(member: RunProcess, context: FaultContext, run_log: RunLog) -> Reason:
    """Why a process had to be killed at the end: that it did not end, or what it waited for."""
    waits = [one for one in run_log.stalls if one.journal == member.journal and one.until_s is None]
    if not waits:
        words = f"{member.journal} did not end within {STOP_TIMEOUT_S:g} s and was killed"
        return Reason(ReasonCode.DID_NOT_END, words, member.journal)
    (stall,) = waits
    run_log.stalls.remove(stall)
    stall.whom = _whom(member, context)  # who coordinates now
    return stall.reason(run_log.now_s(), ", and was killed")


def _whom(member: RunProcess, context: FaultContext) -> str:
    """Who should answer the call that it is in, as the end of a sentence."""
    stage = next((one for one in context.stages if one.name == member.stage), None)
    return _coordinator(member, stage, context) if stage else ""


def _coordinator(member: RunProcess, stage: StageSpec, context: FaultContext) -> str:
    own = stage.transactional_ids.get(member.worker or "")
    try:
        if member.status.waits == OF_GROUP and stage.group is not None:
            broker = context.cluster.group_coordinator(stage.group)
            return f"; the coordinator of its group {stage.group} is broker {broker} now"
        if own is not None:
            broker = context.cluster.txn_coordinator(own)
            return f"; the coordinator of its transactional id {own} is broker {broker} now"
    except FencepostError:
        return "; nobody could say who its coordinator is now"
    return ""
