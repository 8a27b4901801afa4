"""What is said of a process that had to be killed at the end: that it did not end, or what it waits for."""

from harness.errors import FencepostError
from harness.history import Role
from harness.pipeline import StageFacts
from harness.reasons import Reason
from harness.runner.faults import FaultContext
from harness.runner.processes import STOP_TIMEOUT_S, Member

STALLED = "stalled"
"""The code of the reason, as the anomaly is called: a worker that lives, and does not go on."""
OF_GROUP = "send_offsets_to_transaction"
REMEDY = (
    "`fencepost list clients` says what is known of the client's version; another one: --client NAME:VERSION; the "
    "worker's journal has a note of the call, with the time at which it began"
)


def not_ended(member: Member, context: FaultContext, now_s: float) -> Reason:
    """Why a process was killed. `now_s`: of the run."""
    heard = member.heard
    if member.role is not Role.WORKER or not heard.since_ns:
        words = f"{member.journal} did not end within {STOP_TIMEOUT_S:g} s and was killed"
        return Reason("did-not-end", words, member.journal)
    waited_s = now_s - heard.since_ns / 1e9
    words = f"worker {member.journal} waits in {heard.waits} since {waited_s:.0f} s, and was killed"
    stage = next((one for one in context.stages if one.name == member.stage), None)
    whom = _coordinator(heard.waits, member, stage, context) if stage else ""
    return Reason(STALLED, words + whom, member.journal, REMEDY)


def _coordinator(call: str, member: Member, stage: StageFacts, context: FaultContext) -> str:
    """Who should answer that call now; empty where the call is for nobody in particular."""
    own = stage.transactional_ids.get(member.worker or "")
    try:
        if call == OF_GROUP and stage.group is not None:
            broker = context.cluster.group_coordinator(stage.group)
            return f"; the coordinator of its group {stage.group} is broker {broker} now"
        if own is not None:
            broker = context.cluster.txn_coordinator(own)
            return f"; the coordinator of its transactional id {own} is broker {broker} now"
    except FencepostError:
        return "; nobody could say who its coordinator is now"
    return ""
