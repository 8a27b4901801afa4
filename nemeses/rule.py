"""rule: a rule of the user's own for Kafka's messages, from `--rule`, a file or `fencepost.rule(...)`.

The rule is in force from its `start_s` for its `hold_s`. It may overlap other faults. The fault acted if the rule had
its effect on a message, and the proof says on which and how it was answered.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from harness.network import ApplyRule
from harness.protocol.rule_options import rule_of
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
)
from nemeses.effects.rules import LINKS, PROVES, rule_in_force


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Raise `NotForThisPipeline`, because a rule is written and never drawn."""
    raise NotForThisPipeline("a rule: write it with --rule")


@contextmanager
def rule(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Put the rule in force."""
    spec = rule_of(planned.parameters)
    with rule_in_force(context, spec.rule, LINKS[spec.links]) as effect:
        yield effect


NEMESIS = Nemesis(
    name="rule",
    summary="apply a rule of your own to Kafka's messages: --rule",
    past_tense="were changed by a rule of --rule",
    proves=PROVES,
    needs=frozenset({ApplyRule}),
    occupies=lambda planned: frozenset(),
    hold_s=10.0,
    recovery_s=0.0,
    draw=draw,
    inject=rule,
    halts=True,
    by_default=False,
    links="client",
)
