"""The proof that an effect on links acts: a broker or a client has met it."""

from harness.common.errors import WaitTimeout
from harness.network import ActiveEffect
from harness.runner.nemesis import FaultContext, InjectedFault

GOAL = "link-in-use"
USED_TIMEOUT_S = 10.0
"""How long the heal waits for a process to meet the effect. It is longer than two heartbeats."""


def prove_on_links(context: FaultContext, effect: InjectedFault, active: ActiveEffect) -> None:
    """Add to the fault the proof that its effect on links acts. Call it before the heal.

    Wait up to `USED_TIMEOUT_S` until a process meets the effect. If none does, the fault has an unmet goal.
    """
    try:
        awaited = "the pipeline to meet the effect on the links"
        evidence = context.wait_for(
            active.evidence, awaited, USED_TIMEOUT_S, every_s=0.2, last_seen=lambda: active.missing_proof
        )
    except WaitTimeout as error:
        effect.unmet_goals[GOAL] = str(error)
    else:
        effect.add_proof(evidence)
