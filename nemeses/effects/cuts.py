"""The proof that a cut acts: a process other than the harness has sent bytes into it."""

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.network import ActiveEffect
from harness.runner.nemesis import InjectedFault

GOAL = "link-in-use"
USED_TIMEOUT_S = 10.0
"""How much longer a cut stays if nothing was sent into it by the end of its hold. Longer than two heartbeats."""


def prove_cut(effect: InjectedFault, cut: ActiveEffect) -> None:
    """Add the proof that a cut acts to the effect. Call it before the cut is healed.

    If nothing was sent into the links yet, wait for `USED_TIMEOUT_S`. If still nothing is sent, the effect says so.
    """
    try:
        awaited = "the pipeline to send bytes into the cut"
        evidence = wait_for(
            cut.evidence, awaited, USED_TIMEOUT_S, every_s=0.2, last_seen=lambda: cut.missing_proof
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
    else:
        effect.add_proof(evidence)
