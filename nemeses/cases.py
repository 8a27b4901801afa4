"""cases: tries the cases of an exploration, each with one rule for Kafka's messages. `fencepost explore` plans it.

Each worker gets one case after the other. It stops before the step of the case, the rule comes into force, and it goes
on. After the program the rule is healed: it delivers what it keeps. So at most one rule a worker is in force, and the
rules of different cases do not meet, because each selects by the transactional id of its case.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from random import Random

from harness.common.errors import FaultFailed, WaitTimeout
from harness.network import ApplyRule
from harness.processes.control_line import CaseEnd, CaseOrder, Command
from harness.protocol.cases import OVER, Case, CaseOutcome, decode_cases, write_outcomes
from harness.results.wording import plural
from harness.runner.nemesis import (
    DrawnFault,
    FaultContext,
    FaultTargets,
    InjectedFault,
    Nemesis,
    NotForThisPipeline,
    PlannedFault,
    Resource,
)
from harness.runner.run_process import RunProcess
from nemeses.effects.rules import LINKS, PROVES

NAME = "cases"
CASE_S = 30.0
"""The longest time of a case until its program is over, and again until it has ended."""
WORKER_S = 60.0
"""The longest time until the replacement of a killed worker is ready."""
POLL_S = 0.01


@dataclass(frozen=True)
class CaseLoop:
    """Gives the cases of a queue to one worker."""

    context: FaultContext
    worker: str
    cases: SimpleQueue[Case]

    def run(self) -> list[CaseOutcome]:
        """Try cases until there are no more."""
        outcomes = []
        with suppress(Empty):
            while True:
                outcomes.append(self._try(self.cases.get_nowait()))
        return outcomes

    def _try(self, case: Case) -> CaseOutcome:
        process = self.context.wait_for(self._ready_process, f"{self.worker} to be ready", WORKER_S)
        began_ns = time.monotonic_ns()
        acted, proof, stuck = False, "", ""
        process.status.step = process.status.case = None
        process.send(Command(case=CaseOrder(case.number, case.program, case.stop)))
        try:
            if case.rule is None:
                self._wait_for_step(process, OVER)
            else:
                acted, proof = self._under_rule(process, case)
            process.send(Command(go=True))
            self.context.wait_for(
                lambda: process.status.case,
                f"{case.name} to end",
                CASE_S,
                every_s=POLL_S,
                last_seen=lambda: process.status,
            )
        except (WaitTimeout, FaultFailed) as error:
            stuck = str(error)
            process.child.kill()
            self.context.processes.replace(process)
        end = process.status.case or CaseEnd(case.number, ())
        if end.left:
            stuck = f"{plural(end.left, 'input')} could not be processed"
        return CaseOutcome(case, began_ns, time.monotonic_ns(), end.steps, end.errors, acted, proof, stuck)

    def _under_rule(self, process: RunProcess, case: Case) -> tuple[bool, str]:
        """Let the program run under its rule. Returns whether the effect of the rule is proved, and the proof."""
        assert case.stop is not None and case.rule is not None
        self._wait_for_step(process, case.stop)
        process.status.step = None
        network = self.context.cluster.network
        links = [link for link in network.links if link.startswith(LINKS["client"])]
        with network.impose(links, ApplyRule(case.rule)) as effect:
            process.send(Command(go=True))
            self._wait_for_step(process, OVER)
        proof = effect.evidence()
        return bool(proof), proof or effect.missing_proof

    def _wait_for_step(self, process: RunProcess, step: str) -> None:
        def reached() -> bool:
            if not process.alive:
                raise WaitTimeout(step, CASE_S, f"{process.journal} ended: {process.last_output()}")
            return process.status.step == step

        self.context.wait_for(
            reached,
            f"{process.journal} to come to {step}",
            CASE_S,
            every_s=POLL_S,
            last_seen=lambda: process.status,
        )

    def _ready_process(self) -> RunProcess | None:
        own = [process for process in self.context.processes.workers() if process.worker == self.worker]
        return next((process for process in own if process.status.ready), None)


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Raise `NotForThisPipeline`, because cases are listed by `fencepost explore` and never drawn."""
    raise NotForThisPipeline("cases: use `fencepost explore`")


@contextmanager
def try_cases(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Try all cases, with as many at the same time as there are workers."""
    cases: SimpleQueue[Case] = SimpleQueue()
    listed = decode_cases(str(planned.parameters["cases"]))
    for case in listed:
        cases.put(case)
    names = dict.fromkeys(str(process.worker) for process in context.processes.workers())
    effect = InjectedFault(target=f"{len(listed)} cases")
    with ThreadPoolExecutor(len(names), thread_name_prefix="cases") as pool:
        loops = [pool.submit(CaseLoop(context, name, cases).run) for name in names]
        outcomes = [outcome for loop in loops for outcome in loop.result()]
    write_outcomes(context.processes.folder, sorted(outcomes, key=lambda outcome: outcome.case.number))
    prove(effect, outcomes)
    yield effect


def prove(effect: InjectedFault, outcomes: Sequence[CaseOutcome]) -> None:
    """Say how many cases had the effect of their rule. If none had it, the fault did not act."""
    acted = sum(outcome.acted or outcome.case.rule is None for outcome in outcomes)
    words = f"{acted} of {plural(len(outcomes), 'case')} had the effect of their rule"
    if acted:
        effect.add_proof(words)
    else:
        effect.unmet_goals[NAME] = words


NEMESIS = Nemesis(
    name=NAME,
    summary="try the cases of `fencepost explore`",
    past_tense="were tried",
    proves=PROVES,
    needs=frozenset({ApplyRule}),
    occupies=lambda planned: frozenset({Resource.MESSAGES}),
    hold_s=0.0,
    recovery_s=0.0,
    draw=draw,
    inject=try_cases,
    halts=True,
    by_default=False,
    links="client",
)
