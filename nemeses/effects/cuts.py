"""The proof that a cut acts: a broker or a client has sent bytes into it."""

from harness.common.errors import WaitTimeout
from harness.network import ActiveEffect
from harness.runner.nemesis import FaultContext, InjectedFault

GOAL = "link-in-use"
USED_TIMEOUT_S = 10.0
"""How much longer a cut lasts if nothing was sent into it before its end. It is longer than two heartbeats."""


def prove_cut(context: FaultContext, effect: InjectedFault, cut: ActiveEffect) -> None:
    """Add to the effect the proof that a cut acts. Call it before the cut is healed.

    If nothing was sent into the links yet, wait until `USED_TIMEOUT_S` has passed. If nothing is sent by then, the
    effect says so.
    """
    try:
        awaited = "the pipeline to send bytes into the cut"
        evidence = context.wait_for(
            cut.evidence, awaited, USED_TIMEOUT_S, every_s=0.2, last_seen=lambda: cut.missing_proof
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
    else:
        effect.add_proof(evidence)
