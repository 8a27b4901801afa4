"""One batch of an exploration: a run of the workload explore whose only fault are its cases, and their verdicts."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from time import monotonic

from msgspec import structs

from fencepost import registry
from fencepost.exploration.space import CaseVerdict, Scope, TriedCase
from fencepost.runs.carry_out import FinishedRun, perform_run
from harness.common.progress import Progress, ProgressSnapshot
from harness.common.wording import plural
from harness.protocol.cases import Case, CaseOutcome, encode_cases
from harness.protocol.rules import ProtocolRule
from harness.results.example import Example
from harness.results.verdict import Verdict
from harness.runner.interrupt import Interrupt
from harness.runner.nemesis import PlannedFault, Target
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from nemeses.cases import NAME
from reports.findings_text import example_sentences
from workloads.explore import EXPLORE, EXPLORE_MEMBERS, INPUTS, TASKS
from workloads.model.workload import pinned_id

NO_CASE = -1
"""The number under which the findings are that are of no case."""
SHOWN_EVERY_S = 10.0
FEED_S = 2.0
"""The time in which the inputs of a batch are written."""
TXN_TIMEOUT_S = 5.0
"""Longer than any case keeps a transaction open on purpose, and short enough to end one that its producer has left."""


def numbered(cases: Sequence[Case]) -> list[Case]:
    """Give each case a partition, and let its rules select the messages of the transactional id of this partition."""
    return [
        structs.replace(
            case,
            number=number,
            faults=tuple(
                structs.replace(fault, rule=_of_id(fault.rule, n, pinned_id(TASKS, number)))
                for n, fault in enumerate(case.faults, 1)
            ),
        )
        for number, case in enumerate(cases)
    ]


def _of_id(rule: ProtocolRule, n: int, transactional_id: str) -> ProtocolRule:
    return structs.replace(
        rule,
        name=f"fault-{n}-of-{transactional_id}",
        select=structs.replace(rule.select, transactional_id=transactional_id),
    )


def options_of_batch(options: Options, scope: Scope, cases: int, name: str) -> Options:
    """Return the options of the run of a batch."""
    return replace(
        options,
        workload=(EXPLORE_MEMBERS if scope.members else EXPLORE).name,
        name=name,
        brokers=scope.brokers,
        partitions=cases,
        nemesis=("none",),
        rate=INPUTS * cases / FEED_S,
        time_limit_s=FEED_S,
        abort_share=0.0,
        txn_timeout_s=TXN_TIMEOUT_S,
    )


@dataclass
class BatchProgress:
    """Shows how many cases were tried, instead of the phases of the run of a batch."""

    progress: Progress
    before: int  # cases that were tried before this batch
    all_cases: int
    began_s: float  # on the monotonic clock, when `begun` cases were tried
    begun: int
    _shown_s: float = field(default_factory=monotonic)

    def phase(self, name: str) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show what the run says."""
        self.progress.say(text)

    def update(self, snapshot: ProgressSnapshot) -> None:
        """Show the count, if the last one was shown long enough ago."""
        if monotonic() - self._shown_s >= SHOWN_EVERY_S:
            processed = 0 if snapshot.lag is None else snapshot.inputs - snapshot.lag
            self.show(self.before + processed // INPUTS)

    def show(self, tried: int) -> None:
        """Show how many cases were tried, and how long the others will take."""
        self._shown_s = monotonic()
        text = f"{tried:,} of {plural(self.all_cases, 'case')} tried"
        if tried > self.begun:
            left_s = (self._shown_s - self.began_s) / (tried - self.begun) * (self.all_cases - tried)
            text += f", about {math.ceil(left_s / 60)} min left"
        self.progress.say(text)

    def hidden(self) -> AbstractContextManager[None]:
        """Hide what updates overwrite."""
        return self.progress.hidden()

    def close(self) -> None:
        """Do nothing: the exploration closes its progress."""


def run_batch(
    options: Options, cases: Sequence[Case], interrupt: Interrupt, progress: Progress
) -> FinishedRun:
    """Carry out numbered cases in one run. This checks nothing."""
    schedule = Schedule((PlannedFault(NAME, Target(NAME), 0.0, 0.0, {NAME: encode_cases(list(cases))}),))
    workload = registry.pipeline_of(options)
    with ExitStack() as stack:
        return perform_run(options, progress, "fencepost explore", workload, schedule, interrupt, stack, None)


def anomalies_of_no_case(outcomes: Sequence[CaseOutcome], verdict: Verdict) -> list[str]:
    """Return the anomalies with a finding that is of no case of the batch."""
    return list(_anomalies_by_case(verdict, [outcome.case.number for outcome in outcomes]).get(NO_CASE, {}))


def judge(outcomes: Sequence[CaseOutcome], verdict: Verdict, batch: str) -> Iterator[TriedCase]:
    """Yield the verdict of each case of a batch.

    Args:
        verdict: It has all findings as examples.
        batch: The run folder.
    """
    anomalies = _anomalies_by_case(verdict, [outcome.case.number for outcome in outcomes])
    for outcome in outcomes:
        found = anomalies.get(outcome.case.number, {})
        yield TriedCase(
            _verdict_of(outcome, found),
            batch,
            outcome.case.number,
            list(found),
            outcome.proof,
            list(outcome.errors),
            outcome.stuck,
            why=[f"{name}: {sentence}" for name, sentence in found.items()],
        )


def _verdict_of(outcome: CaseOutcome, anomalies: Collection[str]) -> CaseVerdict:
    if anomalies:
        return CaseVerdict.WRONG
    if outcome.stuck:
        return CaseVerdict.STUCK
    if not outcome.acted:
        return CaseVerdict.NOT_MET
    return CaseVerdict.FENCED if outcome.errors else CaseVerdict.RIGHT


def _anomalies_by_case(verdict: Verdict, numbers: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
    """Return the anomalies of each case, by its number, each with a sentence about its first finding."""
    ids = {pinned_id(TASKS, number): number for number in numbers}
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for name, findings in verdict.anomalies.items():
        if findings.allowed:
            continue
        assert len(findings.examples) == findings.count, f"{name} has more findings than examples"
        sentences = example_sentences(name, findings)
        for example, sentence in zip(findings.examples, sentences, strict=True):
            found[_case_of(example, ids)].setdefault(name, sentence)
    return found


def _case_of(example: Example, ids: Mapping[str, int]) -> int:
    """Return the number of the case that an example is about, or `NO_CASE`."""
    for part in example.parts():
        if part.get("transactional_id") in ids:
            return ids[part.get("transactional_id")]
    for part in example.parts():
        if part.get("topic") in EXPLORE.topics and part.get("partition") is not None:
            return int(part.get("partition"))
    return NO_CASE
