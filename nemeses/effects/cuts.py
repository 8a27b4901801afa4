"""The proof that a cut acts: somebody other than the harness has sent bytes into it."""

from harness.common.errors import WaitTimeout
from harness.common.waiting import wait_for
from harness.network import ActiveEffect
from harness.runner.nemesis import InjectedFault

GOAL = "link-in-use"
USED_TIMEOUT_S = 10.0
"""How much longer a cut stays if nothing was sent into it by the end of its hold: longer than two heartbeats."""


def prove_cut(effect: InjectedFault, cut: ActiveEffect) -> None:
    """Add the proof that a cut acts to the effect; called while the cut is on.

    If nobody has used its links yet, wait `USED_TIMEOUT_S` for somebody to. If nobody does, the effect says so.
    """
    try:
        awaited = "the cut to be met by bytes of the pipeline"
        evidence = wait_for(
            cut.evidence, awaited, USED_TIMEOUT_S, every_s=0.2, last_seen=lambda: cut.missing_proof
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
    else:
        effect.add_proof(evidence)
