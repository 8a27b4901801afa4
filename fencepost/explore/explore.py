"""An exploration from the first recording to its outcome. It goes on where it was interrupted."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import libversion

from fencepost.checks.check_stored_runs import check_stored_run, open_evidence
from fencepost.checks.spark import start_early
from fencepost.explore.batch import numbered, options_of_batch, run_batch
from fencepost.explore.judge import judge
from fencepost.explore.record import TIMES_ALONE, CaseVerdict, Exploration, TriedCase, load
from fencepost.explore.space import Kind, Request, cases_of, requests_of
from harness.common.errors import PipelineFailed
from harness.common.names import check_name
from harness.common.progress import Progress
from harness.environment.java import find_java
from harness.environment.kafka_versions import kafka_version
from harness.protocol.cases import Case, read_outcomes
from harness.record.protocol_journal import JOURNAL, RequestRecord, read_requests
from harness.results.wording import plural
from harness.runner.interrupt import Interrupt
from harness.settings.client_choice import ClientChoice
from harness.settings.options import Options
from workloads.explore import INPUTS, TASKS
from workloads.model.workload import pinned_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDINGS = 2
"""How often each program is recorded. Its requests must be the same each time."""
MOST_CASES = 300
"""Of a batch. A broker leads thousands of new partitions only after a while."""
MOST_FINDINGS = 10_000
"""Of each anomaly in a batch. All of them are needed, to know their cases."""


@dataclass
class Explorer:
    """What an exploration works with."""

    options: Options  # of each batch, besides those that the batch decides
    folder: Path
    record: Exploration
    spark: "Callable[[], SparkSession]"
    progress: Progress
    interrupt: Interrupt
    command: str
    limit_s: float | None = None

    def run(self, only: str | None = None) -> None:
        """Try all cases that were not tried, and then those alone that were not right.

        Args:
            only: The name of the only case to try.
        """
        began_s = monotonic()
        if not self.record.sent:
            self._record_programs()
        self.record.all_cases = len(self.space())
        space = [case for case in self.space() if only in (None, case.name)]
        while (left := [case for case in space if case.name not in self.record.cases]) and self._has_time(
            began_s
        ):
            tried = len(space) - len(left)
            self.progress.say(f"{tried:,} of {plural(len(space), 'case')} tried")
            self._try_batch(left[:MOST_CASES])
        while (alone := [case for case in space if self._is_due_alone(case)]) and self._has_time(began_s):
            self.progress.say(f"{plural(len(alone), 'case')} were not right: each is tried alone")
            self._try_alone(alone)
        self.record.finished = not left
        self.record.save(self.folder)

    def space(self) -> list[Case]:
        """Return all cases."""
        record = self.record
        return [
            case
            for program, sent in record.sent.items()
            for case in cases_of(
                program,
                [Request(*request) for request in sent],
                [Kind(kind) for kind in record.kinds],
                all_errors=record.all_errors,
            )
        ]

    def _has_time(self, began_s: float) -> bool:
        return not self.interrupt.requested and (self.limit_s is None or monotonic() - began_s < self.limit_s)

    def _record_programs(self) -> None:
        """Carry out each program without rules, and note its requests. Raises `PipelineFailed`."""
        programs = [Case(0, program, program) for program in self.record.programs for _ in range(RECORDINGS)]
        self.progress.say(f"recording the requests of {', '.join(self.record.programs)}")
        folder = self._run(programs, 1)
        requests: dict[str, list[RequestRecord]] = defaultdict(list)
        for request in read_requests(folder / JOURNAL, 0):
            for own in request.transactional_ids:
                requests[own].append(request)
        for outcome in read_outcomes(folder):
            program = outcome.case.program
            if outcome.stuck or outcome.errors:
                raise PipelineFailed(
                    f"the program {program} failed without a fault: {outcome.stuck or outcome.errors[0]}"
                )
            sent = requests_of(outcome, requests[pinned_id(TASKS, outcome.case.number)])
            listed = [(request.api, request.number, request.step) for request in sent]
            if self.record.sent.setdefault(program, listed) != listed:
                raise PipelineFailed(
                    f"the program {program} sent other requests the second time, so it has no cases"
                )
        self.record.save(self.folder)

    def _try_batch(self, cases: Sequence[Case]) -> None:
        for name, tried in self._judged(cases, self.options.workers):
            self.record.cases[name] = tried
        self.record.save(self.folder)

    def _is_due_alone(self, case: Case) -> bool:
        tried = self.record.cases.get(case.name)
        if tried is None or tried.verdict in (CaseVerdict.RIGHT, CaseVerdict.FENCED):
            return False
        return len(tried.alone) < TIMES_ALONE

    def _try_alone(self, cases: Sequence[Case]) -> None:
        """Try each case alone, as often as it is due."""
        due = [case for case in cases for _ in range(TIMES_ALONE - len(self.record.cases[case.name].alone))][
            :MOST_CASES
        ]
        for name, tried in self._judged(due, 1):
            self.record.cases[name].alone.append(tried)
        self.record.save(self.folder)

    def _judged(self, cases: Sequence[Case], at_once: int) -> Iterator[tuple[str, TriedCase]]:
        folder = self._run(cases, at_once)
        verdict = check_stored_run(
            self.spark(), open_evidence(str(folder), folder), lambda name: None, MOST_FINDINGS
        )
        verdict.save(folder / "verdict.json")
        self.record.unknown_because += [f"{folder.name}: {reason.text}" for reason in verdict.unknown_because]
        return judge(read_outcomes(folder), verdict, str(folder.relative_to(self.folder)))

    def _run(self, cases: Sequence[Case], at_once: int) -> Path:
        """Carry out cases in a run, `at_once` of them at the same time. Returns its folder."""
        number = f"{len(list((self.folder / 'batches').glob('[0-9]*'))):03d}"
        options = replace(self.options, store=str(self.folder / "batches"), workers=min(at_once, len(cases)))
        options = options_of_batch(options, len(cases), number)
        finished = run_batch(options, numbered(cases), self.interrupt, self.progress, self.command)
        if self.interrupt.requested:
            raise KeyboardInterrupt
        return finished.folder


def explore(
    options: Options,
    programs: Sequence[str],
    kinds: Sequence[Kind],
    progress: Progress,
    *,
    all_errors: bool = False,
    limit_s: float | None = None,
    only: str | None = None,
    again: bool = False,
) -> tuple[Exploration, Path]:
    """Explore a client. Returns what is known, and the folder of the exploration.

    An unfinished exploration of the same client goes on. A finished one begins again.
    """
    level = kafka_version(options.kafka).transaction_level(options.transaction_version)
    client = client_name(options)
    folder = Path(options.store) / "explore" / f"{client}-kafka-{options.kafka}-tv{level}"
    record = Exploration(client, options.kafka, level, list(programs), list(map(str, kinds)), all_errors)
    earlier = None if again else load(folder)
    if earlier is not None and not earlier.finished and earlier.same_space(record):
        record = earlier
    elif folder.exists():
        shutil.rmtree(folder)
    with ExitStack() as stack:
        starting = start_early(
            find_java(options.java), options.master, options.spark_conf, MOST_CASES * INPUTS
        )
        stack.callback(starting.close)
        interrupt = stack.enter_context(Interrupt())
        explorer = Explorer(
            options, folder, record, starting.session, progress, interrupt, "fencepost explore", limit_s
        )
        if only is not None and record.sent:
            check_name("case", only, [case.name for case in explorer.space()])
        explorer.run(only)
    return record, folder


def client_name(options: Options) -> str:
    """Return the client with the version of its library: `librdkafka-2.8.0`, `java-4.4.0`."""
    choice = ClientChoice.of(options.client)
    if choice.pinned is not None:
        return f"{choice.name}-{choice.pinned.library or choice.pinned.version}"
    return f"{choice.name}-{options.kafka if choice.name == 'java' else libversion()[0]}"
