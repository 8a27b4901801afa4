"""An exploration from the first recording to its outcome. It goes on where it was interrupted."""

import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from confluent_kafka import libversion

from fencepost.explore.batch import numbered, options_of_batch, run_batch
from fencepost.explore.judge import anomalies_of_no_case, judge
from fencepost.explore.record import FILE, TIMES_ALONE, CaseVerdict, Exploration, TriedCase, load
from fencepost.explore.space import CaseKind, Request, cases_of, requests_of
from fencepost.runs.run_spark import RunSpark
from harness.clients.driver import Driver
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
from workloads.explore import TASKS
from workloads.model.workload import pinned_id

RECORDINGS = 2
"""How often each program is recorded. Its requests must be the same each time."""
MOST_CASES = 300
"""The most cases of a batch. With more, a broker needs a long time until it leads all new partitions."""
ONE_CASE = "one-case"
"""The folder of a case that the user has named."""
MOST_FINDINGS = 10_000
"""The most findings of an anomaly that are read. Each finding names its case."""


@dataclass
class Explorer:
    """Carries out an exploration, batch by batch."""

    options: Options  # of each batch, besides those that the batch decides
    folder: Path
    record: Exploration
    spark: RunSpark
    progress: Progress
    interrupt: Interrupt
    limit_s: float | None = None
    _began_s: float = field(init=False, default=0.0)

    def run(self, only: str | None = None) -> None:
        """Try all cases that were not tried, and then those alone that were not right.

        Args:
            only: The name of the only case to try.
        """
        self._began_s = monotonic()
        if not self.record.sent:
            self._record_programs()
        space = self.space()
        self.record.all_cases = len(space)
        if only is not None:
            check_name("case", only, [case.name for case in space])
            space = [case for case in space if case.name == only]
        left = [case for case in space if case.name not in self.record.cases]
        # A batch is judged while the next one is carried out.
        with ThreadPoolExecutor(1, thread_name_prefix="judge") as pool:
            judged: Future[None] | None = None
            for first in range(0, len(left), MOST_CASES):
                if not self._has_time():
                    break
                self._say_progress(len(space) - len(left), first, len(left))
                folder = self._run(left[first : first + MOST_CASES], self.options.workers)
                if judged is not None:
                    judged.result()
                judged = pool.submit(self._judge, folder, self._add_tried)
            if judged is not None:
                judged.result()
        while (alone := [case for case in space if self._is_due_alone(case)]) and self._has_time():
            self.progress.say(
                f"{plural(len(alone), 'case')} of {len(space):,} were not right: each is tried alone"
            )
            due = [
                case for case in alone for _ in range(TIMES_ALONE - len(self.record.cases[case.name].alone))
            ]
            self._judge(self._run(due[:MOST_CASES], 1), self._add_alone)
        self.record.finished = self.record.all_cases == len(self.record.cases) and not alone
        self.record.save(self.folder)

    def _say_progress(self, before: int, done: int, left: int) -> None:
        """Say how many cases were tried, before this command and in it, and how long the others will take."""
        text = f"{before + done:,} of {plural(before + left, 'case')} tried"
        if done:
            minutes = (monotonic() - self._began_s) / done * (left - done) / 60
            text += f", about {math.ceil(minutes)} min left"
        self.progress.say(text)

    def _add_tried(self, name: str, tried: TriedCase) -> None:
        self.record.cases[name] = tried

    def _add_alone(self, name: str, tried: TriedCase) -> None:
        self.record.cases[name].alone.append(tried)

    def space(self) -> list[Case]:
        """Return all cases."""
        record = self.record
        return [
            case
            for program, sent in record.sent.items()
            for case in cases_of(
                program,
                [Request(*request) for request in sent],
                [CaseKind(kind) for kind in record.kinds],
                all_errors=record.all_errors,
            )
        ]

    def _has_time(self) -> bool:
        return self.limit_s is None or monotonic() - self._began_s < self.limit_s

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
            if problems := [*filter(None, [outcome.stuck]), *outcome.errors]:
                raise PipelineFailed(f"the program {program} failed without a fault: {problems[0]}")
            sent = requests_of(outcome, requests[pinned_id(TASKS, outcome.case.number)])
            listed = [(request.api, request.number, request.step) for request in sent]
            if self.record.sent.setdefault(program, listed) != listed:
                raise PipelineFailed(
                    f"the program {program} sent other requests the second time, so it has no cases"
                )
        self.record.save(self.folder)

    def _is_due_alone(self, case: Case) -> bool:
        tried = self.record.cases.get(case.name)
        if tried is None or tried.verdict in (CaseVerdict.RIGHT, CaseVerdict.FENCED):
            return False
        return len(tried.alone) < TIMES_ALONE

    def _judge(self, folder: Path, add: Callable[[str, TriedCase], None]) -> None:
        """Check the run of a batch, add what came of its cases, and save it."""
        verdict = self.spark.check(folder, lambda name: None, MOST_FINDINGS)
        verdict.save(folder / "verdict.json")
        batch = str(folder.relative_to(self.folder))
        self.record.unknown_because += [f"{batch}: {reason.text}" for reason in verdict.unknown_because]
        outcomes = read_outcomes(folder)
        self.record.unknown_because += [
            f"{batch}: a finding of {anomaly} is of no case"
            for anomaly in anomalies_of_no_case(outcomes, verdict)
        ]
        for name, tried in judge(outcomes, verdict, batch):
            add(name, tried)
        self.record.save(self.folder)

    def _run(self, cases: Sequence[Case], at_once: int) -> Path:
        """Carry out cases in a run, `at_once` of them at the same time. Returns its folder."""
        number = f"{len(list((self.folder / 'batches').glob('[0-9]*'))):03d}"
        options = replace(self.options, store=str(self.folder / "batches"), workers=min(at_once, len(cases)))
        options = options_of_batch(options, len(cases), number)
        finished = run_batch(options, numbered(cases), self.interrupt, self.progress)
        if self.interrupt.requested:
            raise KeyboardInterrupt
        return finished.folder


def explore(
    options: Options,
    programs: Sequence[str],
    kinds: Sequence[CaseKind],
    progress: Progress,
    *,
    all_errors: bool = False,
    limit_s: float | None = None,
    only: str | None = None,
    again: bool = False,
) -> tuple[Exploration, Path]:
    """Explore a client. Returns what is known, and the folder of the exploration.

    An unfinished exploration of the same client and the same cases goes on. Another one is kept beside the new one. A
    single case has a folder of its own.
    """
    level = kafka_version(options.kafka).transaction_level(options.transaction_version)
    client = client_name(options)
    folder = Path(options.store) / "explore" / f"{client}-kafka-{options.kafka}-tv{level}"
    if only is not None:
        folder /= ONE_CASE
    record = Exploration(client, options.kafka, level, list(programs), list(map(str, kinds)), all_errors)
    earlier = None if again or only is not None else load(folder)
    if earlier is not None and not earlier.finished and earlier.same_space(record):
        record = earlier
    elif (folder / FILE).exists():
        before = folder.with_name(f"{folder.name}-before")
        shutil.rmtree(before, ignore_errors=True)
        folder.rename(before)
        progress.say(f"the last exploration is now in {before}")
    with ExitStack() as stack:
        spark = RunSpark(options, stack)
        spark.start(find_java(options.java))
        interrupt = stack.enter_context(Interrupt())
        explorer = Explorer(options, folder, record, spark, progress, interrupt, limit_s)
        explorer.run(only)
    return record, folder


def client_name(options: Options) -> str:
    """Return the client with the version of its library: `librdkafka-2.8.0`, `java-4.4.0`. Raises `UsageError`."""
    if options.driver is not None:
        driver = Driver.read(Path(options.driver).expanduser())
        return f"{driver.name}-{driver.version}"
    choice = ClientChoice.of(options.client)
    if choice.pinned is not None:
        return f"{choice.name}-{choice.pinned.library or choice.pinned.version}"
    return f"{choice.name}-{options.kafka if choice.name == 'java' else libversion()[0]}"
