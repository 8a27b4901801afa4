"""cases: tries the cases of an exploration, each with one rule for Kafka's messages. `fencepost explore` plans it.

Each worker gets one case after the other. It stops before the step of the case, the rule comes into force, and it goes
on. After the program the rule is healed: it delivers what it keeps. So at most one rule a worker is in force, and the
rules of different cases do not meet, because each selects by the transactional id of its case.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from random import Random
from typing import TypeVar

from msgspec import structs

from harness.common.errors import FaultFailed, PipelineFailed, WaitTimeout
from harness.common.wording import plural
from harness.network import ActiveEffect, ApplyRule
from harness.processes.messages import CaseEnd, CaseOrder, Command
from harness.protocol.cases import OVER, Case, CaseOutcome, decode_cases, write_outcomes
from harness.protocol.rules import ProtocolRule
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

T = TypeVar("T")
NAME = "cases"
CASE_S = 30.0
"""The longest time of a case until its program is over, and again until it has ended."""
WORKER_S = 60.0
"""The longest time until the replacement of a killed worker is ready."""
LONGEST_S = 1_800.0
"""The longest time of all cases of a run: 300 cases, one after the other, on a slow machine."""
POLL_S = 0.01


@dataclass(frozen=True)
class CaseLoop:
    """Gives the cases of a queue to one worker."""

    context: FaultContext
    worker: str
    cases: SimpleQueue[Case]
    kills: bool  # kill the worker where a program says so; otherwise the worker only drops its producer

    def run(self) -> list[CaseOutcome]:
        """Try cases until there are no more, or the run ends."""
        outcomes = []
        with suppress(Empty):
            while not self.context.stopping():
                outcomes.append(self._try(self.cases.get_nowait()))
        return outcomes

    def _try(self, case: Case) -> CaseOutcome:
        began_ns = time.monotonic_ns()
        effects: list[ActiveEffect] = []
        ends: list[CaseEnd] = []
        stuck = ""
        process = self._ready()
        try:
            with ExitStack() as rules:
                left: dict[str, list[ProtocolRule]] = {fault.stop: [] for fault in case.faults}
                for fault in case.faults:
                    left[fault.stop].append(fault.rule)
                for order in self._orders(case):
                    process = self._order(structs.replace(order, begun=ends[-1].begun if ends else 0))
                    while left and (stop := self._come_to(process, left)) is not None:
                        effects += [rules.enter_context(self._impose(rule)) for rule in left.pop(stop)]
                        process.status.step = None
                        process.send(Command(go=True))
                    if order.killed:
                        ends.append(self._end_of(process))
                        self._kill(process)
                    else:
                        self._come_to(process, ())
            process.send(Command(go=True))
            ends.append(self._end_of(process))
        except (WaitTimeout, FaultFailed) as error:
            stuck = str(error)
            if not case.faults:
                raise PipelineFailed(f"the program {case.program} failed without a fault: {stuck}") from error
            self._kill(process)
            self._process_the_rest(case)
        return _outcome(case, began_ns, ends, effects, stuck)

    def _process_the_rest(self, case: Case) -> None:
        """Let another worker process the inputs of a case that is stuck, so that the run has no inputs left."""
        process = self._order(CaseOrder(case.number, "", begun=1))
        try:
            self._come_to(process, ())
            process.send(Command(go=True))
            self._end_of(process)
        except (WaitTimeout, FaultFailed):  # the run finds that there are inputs left
            self._kill(process)

    def _orders(self, case: Case) -> Iterator[CaseOrder]:
        """Yield the orders for a case. Each except the last one ends with the kill of its worker."""
        stops = tuple({fault.stop for fault in case.faults})
        parts = case.program.split("K") if self.kills else [case.program]
        for part in parts[:-1]:
            yield CaseOrder(case.number, f"{part}K", stops, killed=True)
        yield CaseOrder(case.number, parts[-1], stops)

    def _order(self, order: CaseOrder) -> RunProcess:
        process = self._ready()
        process.status.step = process.status.case = None
        process.send(Command(case=order))
        return process

    def _impose(self, rule: ProtocolRule) -> AbstractContextManager[ActiveEffect]:
        network = self.context.cluster.network
        links = [link for link in network.links if link.startswith(LINKS["client"])]
        return network.impose(links, ApplyRule(rule))

    def _kill(self, process: RunProcess) -> None:
        """Kill a worker by SIGKILL. Another one takes over."""
        process.expected_to_end = True
        process.child.kill()
        self.context.processes.replace(process)

    def _end_of(self, process: RunProcess) -> CaseEnd:
        return self._wait(process, "the end of its case", lambda: process.status.case)

    def _come_to(self, process: RunProcess, steps: Collection[str]) -> str | None:
        """Wait until a worker comes to one of these steps, or to the end of its part of the program (None)."""
        status = process.status
        self._wait(
            process,
            f"the step {', '.join([*steps, OVER])}",
            lambda: status.case is not None or status.step == OVER or status.step in steps,
        )
        return status.step if status.step in steps else None

    def _wait(self, process: RunProcess, what: str, condition: Callable[[], T | None]) -> T:
        def condition_of_live() -> T | None:
            if not process.alive:
                raise FaultFailed(f"{process.journal} ended before {what}: {process.last_output()}")
            return condition()

        return self.context.wait_for(
            condition_of_live,
            f"{what} of {process.journal}",
            CASE_S,
            every_s=POLL_S,
            last_seen=lambda: process.status,
        )

    def _ready(self) -> RunProcess:
        def ready() -> RunProcess | None:
            own = [process for process in self.context.processes.workers() if process.worker == self.worker]
            return next((process for process in own if process.status.ready), None)

        return self.context.wait_for(ready, f"{self.worker} to be ready", WORKER_S)


def _outcome(
    case: Case, began_ns: int, ends: Sequence[CaseEnd], effects: Sequence[ActiveEffect], stuck: str
) -> CaseOutcome:
    acted = len(effects) == len(case.faults) and all(effect.evidence() for effect in effects)
    words = [effect.evidence() or effect.missing_proof for effect in effects]
    if len(effects) < len(case.faults):
        words.append("the program never came to the step of a fault")
    if not stuck and ends and ends[-1].left:
        last = f"; the last error: {ends[-1].last_error}" if ends[-1].last_error else ""
        stuck = f"{plural(ends[-1].left, 'input')} could not be processed{last}"
    return CaseOutcome(
        case,
        began_ns,
        time.monotonic_ns(),
        steps=tuple(step for end in ends for step in end.steps),
        errors=tuple(error for end in ends for error in end.errors),
        acted=acted and bool(case.faults),
        proof="; ".join(words),
        stuck=stuck,
    )


def draw(rng: Random, targets: FaultTargets) -> DrawnFault:
    """Raise `NotForThisPipeline`, because cases are listed by `fencepost explore` and never drawn."""
    raise NotForThisPipeline("cases: use `fencepost explore`")


@contextmanager
def try_cases(context: FaultContext, planned: PlannedFault) -> Iterator[InjectedFault]:
    """Try all cases, with as many at the same time as there are workers."""
    cases: SimpleQueue[Case] = SimpleQueue()
    listed = decode_cases(str(planned.parameters[NAME]))
    for case in listed:
        cases.put(case)
    names = dict.fromkeys(str(process.worker) for process in context.processes.workers())
    effect = InjectedFault(target=f"{len(listed)} cases")
    with ThreadPoolExecutor(len(names), thread_name_prefix="cases") as pool:
        loops = [pool.submit(CaseLoop(context, name, cases, kills=len(names) == 1).run) for name in names]
        outcomes = [outcome for loop in loops for outcome in loop.result()]
    write_outcomes(context.processes.folder, sorted(outcomes, key=lambda outcome: outcome.case.number))
    prove(effect, outcomes)
    yield effect


def prove(effect: InjectedFault, outcomes: Sequence[CaseOutcome]) -> None:
    """Say how many cases had the effect of their rule. If none had it, the fault did not act."""
    acted = sum(outcome.acted or not outcome.case.faults for outcome in outcomes)
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
    overtime_s=LONGEST_S,
    by_default=False,
    links="client",
)
