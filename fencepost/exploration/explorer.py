"""An exploration from the first recording to its outcome. It goes on where it was interrupted."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from time import monotonic

from confluent_kafka import libversion
from msgspec import structs

from fencepost.checks.run_folders import sole_use
from fencepost.checks.spark import RunSpark
from fencepost.exploration.batch import (
    BatchProgress,
    anomalies_of_no_case,
    judge,
    numbered,
    options_of_batch,
    run_batch,
)
from fencepost.exploration.outcome import verdict_of, write_cases, write_page
from fencepost.exploration.space import (
    FILE,
    PAIR,
    CaseKind,
    CaseVerdict,
    Exploration,
    Request,
    Scope,
    SentRequest,
    TriedCase,
    cases_of,
    load,
    pairs_of,
    requests_of,
    scope_of,
)
from harness.clients.driver import Driver
from harness.common.errors import PipelineFailed, UsageError
from harness.common.progress import Progress
from harness.common.wording import check_name, plural
from harness.environment.java import find_java
from harness.environment.versions import kafka_version
from harness.protocol.cases import Case, CaseOutcome, read_outcomes
from harness.record.protocol_journal import JOURNAL, RequestRecord, read_requests
from harness.results.reasons import Reason, ReasonCode
from harness.runner.interrupt import Interrupt
from harness.settings.kinds import ClientChoice
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
    _began_s: float = field(init=False, default_factory=monotonic)

    def run(self, only: str | None = None) -> None:
        """Try all cases that were not tried, and then those alone that were not right.

        Args:
            only: The name of the only case to try.
        """
        self.record.only = only or ""
        if not self.record.sent:
            self._record_programs()
        singles = list(self._singles())
        if only is not None:
            first, _, _ = only.partition(PAIR)
            check_name("case", first, [case.name for case in singles])
            singles = [case for case in singles if case.name == first]
        self.record.all_cases = len(singles)
        self._try(singles)
        if singles and not self.record.cases:
            passed_s = monotonic() - self._began_s
            raise UsageError(
                f"nothing was tried, because the limit was over after the recording, which took {passed_s:.0f} s: "
                "set a longer --limit"
            )
        if self.record.scope.pairs:
            pairs = list(self._pairs(singles))
            if only is not None:
                check_name("case", only, [case.name for case in pairs])
                pairs = [case for case in pairs if case.name == only]
            self.record.all_cases += len(pairs)
            self._try(pairs)
        tried = self.record.cases.values()
        self.record.finished = len(tried) >= self.record.all_cases and not any(
            case.times_due for case in tried
        )
        self._save()

    def _try(self, cases: Sequence[Case]) -> None:
        left = [case for case in cases if case.name not in self.record.cases]
        before = len(cases) - len(left)
        progress = BatchProgress(self.progress, before, len(cases), monotonic(), before)
        # A batch is judged while the next one is carried out.
        with ThreadPoolExecutor(1, thread_name_prefix="judge") as pool:
            judged: Future[None] | None = None
            while left and self._has_time():
                batch, left = left[: self._most], left[self._most :]
                progress.before = len(cases) - len(left) - len(batch)
                progress.show(progress.before)
                folder = self._run(batch, self.options.workers, progress)
                if judged is not None:
                    judged.result()
                judged = pool.submit(self._judge, folder)
            if judged is not None:
                judged.result()
        while (due := self._due_alone(cases)) and self._has_time():
            self.progress.say(
                f"{plural(len({case.name for case in due}), 'case')} of {len(cases):,} "
                "were not right: each is tried alone"
            )
            alone = BatchProgress(self.progress, 0, len(due), monotonic(), 0)
            self._judge(self._run(due[: self._most], 1, alone))

    @property
    def _most(self) -> int:
        return MOST_CASES // self.record.scope.brokers

    def _due_alone(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases to try alone, each as often as it must be."""
        tried = self.record.cases
        return [case for case in cases if case.name in tried for _ in range(tried[case.name].times_due)]

    def _singles(self) -> Iterator[Case]:
        """Yield the cases with one fault."""
        kinds = [CaseKind(kind) for kind in self.record.scope.kinds]
        for program, sent in self.record.sent.items():
            requests = [Request(*request) for request in sent]
            yield from cases_of(program, requests, kinds, all_errors=self.record.scope.all_errors)

    def _pairs(self, singles: Sequence[Case]) -> Iterator[Case]:
        """Yield the cases with two faults: one pair for each first fault, then another one for each."""
        kinds = [CaseKind(kind) for kind in self.record.scope.kinds]
        pairs = [
            list(pairs_of(case, sent, requests, kinds, all_errors=self.record.scope.all_errors))
            for case in singles
            if (requests := self._changed(case.name))
            for sent in [[Request(*request) for request in self.record.sent[case.program]]]
        ]
        for turn in zip_longest(*pairs):
            yield from filter(None, turn)

    def _changed(self, name: str) -> list[Request]:
        """Return the requests of a case that was not wrong, if its fault has changed them."""
        tried = self.record.cases.get(name)
        is_clear = tried is not None and tried.settled in (CaseVerdict.RIGHT, CaseVerdict.FENCED)
        return [Request(*request) for request in tried.changed] if tried and is_clear else []

    def _has_time(self) -> bool:
        return self.limit_s is None or monotonic() - self._began_s < self.limit_s

    def _record_programs(self) -> None:
        """Carry out each program without faults, and note its requests. Raises `PipelineFailed`."""
        offered = [name for name in self.record.scope.programs if name not in self.record.not_offered]
        programs = [Case(0, program, program) for program in offered for _ in range(RECORDINGS)]
        self.progress.say(f"recording the requests of {', '.join(offered)}")
        progress = BatchProgress(self.progress, 0, len(programs), monotonic(), 0)
        folder = self._run(programs, 1, progress)
        tried = self._check(folder, read_outcomes(folder))
        found: dict[str, list[set[str]]] = defaultdict(list)
        for (outcome, sent), case in zip(_requests_by_case(folder), tried, strict=True):
            program = outcome.case.program
            if problems := [*filter(None, [outcome.stuck]), *outcome.errors]:
                raise PipelineFailed(f"the program {program} failed without a fault: {problems[0]}")
            if self.record.sent.setdefault(program, sent) != sent:
                raise PipelineFailed(
                    f"the program {program} sent other requests the second time, so it has no cases"
                )
            found[program].append(set(case.anomalies))
        for program, times in found.items():
            if any(times):
                self.record.wrong_without_fault[program] = sorted(set.intersection(*times))
                del self.record.sent[program]
        self._save()

    def _judge(self, folder: Path) -> None:
        """Check the run of a batch, and save what came of its cases. A case that was tried before was tried alone."""
        outcomes = read_outcomes(folder)
        tried = self._check(folder, outcomes)
        by_case = _requests_by_case(folder) if self.record.scope.pairs else ()
        sent = {outcome.case.number: requests for outcome, requests in by_case}
        for outcome, case in zip(outcomes, tried, strict=True):
            if sent and sent[outcome.case.number] != self.record.sent[outcome.case.program]:
                case.changed = sent[outcome.case.number]
            if before := self.record.cases.get(outcome.case.name):
                before.alone.append(case)
            else:
                self.record.cases[outcome.case.name] = case
        write_cases(folder, outcomes, tried, self.record.command)
        self._save()

    def _check(self, folder: Path, outcomes: Sequence[CaseOutcome]) -> list[TriedCase]:
        """Check a run, and return the verdicts of its cases. What it lacks makes the exploration unknown."""
        verdict = self.spark.check(folder, lambda name: None, MOST_FINDINGS)
        verdict.save(folder / "verdict.json")
        batch = str(folder.relative_to(self.folder))
        self.record.unknown_because += [
            structs.replace(reason, text=f"{batch}: {reason.text}") for reason in verdict.unknown_because
        ]
        self.record.unknown_because += [
            Reason(ReasonCode.INCOMPLETE_EVIDENCE, f"{batch}: a finding of {anomaly} is of no case", anomaly)
            for anomaly in anomalies_of_no_case(outcomes, verdict)
        ]
        return list(judge(outcomes, verdict, batch))

    def _save(self) -> None:
        self.record.ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.record.save(self.folder)
        write_page(self.record, self.folder)
        verdict_of(self.record, self.folder).save(self.folder / "verdict.json")

    def _run(self, cases: Sequence[Case], at_once: int, progress: Progress) -> Path:
        """Carry out cases in a run, `at_once` of them at the same time. Returns its folder."""
        number = f"{len(list((self.folder / 'batches').glob('[0-9]*'))):03d}"
        options = replace(self.options, store=str(self.folder / "batches"), workers=min(at_once, len(cases)))
        options = options_of_batch(options, self.record.scope, len(cases), number)
        return run_batch(options, numbered(cases), self.interrupt, progress).folder


def _requests_by_case(folder: Path) -> Iterator[tuple[CaseOutcome, list[SentRequest]]]:
    """Yield each case of a batch, and the requests that it sent."""
    requests: dict[str, list[RequestRecord]] = defaultdict(list)
    for request in read_requests(folder / JOURNAL, 0):
        for own in request.transactional_ids:
            requests[own].append(request)
    for outcome in read_outcomes(folder):
        sent = requests_of(outcome, requests[pinned_id(TASKS, outcome.case.number)])
        yield outcome, [(request.api, request.number, request.step, request.nth) for request in sent]


def explore(
    options: Options,
    scope: Scope,
    progress: Progress,
    *,
    limit_s: float | None = None,
    only: str | None = None,
    again: bool = False,
    folder: Path | None = None,
) -> tuple[Exploration, Path]:
    """Explore a client. Returns what is known, and the folder of the exploration, which is in the store if not given.

    An unfinished exploration of the same client and the same cases goes on, if this version of Fencepost and the same
    driver have begun it. An exploration that cannot go on is kept in another folder. A single case has its own folder.

    Raises:
        UsageError: There is no such case, the client lacks a step, or another exploration runs in the folder.
        PipelineFailed: A program fails without a fault.
    """
    level = kafka_version(options.kafka).transaction_level(options.transaction_version)
    client = client_name(options)
    folder = folder or Path(options.store) / "explore" / f"{client}-kafka-{options.kafka}-tv{level}"
    if only is not None:
        folder /= ONE_CASE
        scope = scope_of(
            [only.partition(" ")[0]],
            CaseKind,
            all_errors=True,
            members=scope.members,
            brokers=scope.brokers,
            pairs=PAIR in only,
        )
    record = Exploration(client, options.kafka, level, scope, command_of(options, scope))
    record.not_offered = _not_offered(options, scope)
    record.made_by = _made_by(options)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        taken = f"another exploration runs in {folder}: wait for it, or name another --store"
        stack.enter_context(sole_use(folder.parent / f".{folder.name}.lock", taken))
        earlier = None if again or only is not None else load(folder)
        if earlier is not None and earlier.goes_on(record, folder):
            record = earlier
        elif (folder / FILE).exists():
            before = folder.with_name(f"{folder.name}-before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
            folder.rename(before)
            progress.say(f"the last exploration is now in {before}")
        spark = RunSpark(options, stack)
        spark.start(find_java(options.java))
        interrupt = stack.enter_context(Interrupt(at_once=True))
        explorer = Explorer(options, folder, record, spark, progress, interrupt, limit_s)
        explorer.run(only)
    return record, folder


def _made_by(options: Options) -> str:
    """Return the version of Fencepost, and a digest of the files of the driver."""
    if options.driver is None:
        return version("fencepost")
    digest = sha256()
    for file in sorted(Path(options.driver).expanduser().iterdir()):
        if file.is_file():
            digest.update(file.name.encode() + file.read_bytes())
    return f"{version('fencepost')} {digest.hexdigest()[:16]}"


def command_of(options: Options, scope: Scope, *, whole: bool = False) -> str:
    """Return the command that explores this client on this cluster, and with `whole` exactly this scope."""
    default, usual = Options(), scope_of()
    flags: dict[str, object] = {
        name: value
        for name in ("client", "driver", "transaction_version")
        if (value := getattr(options, name)) != getattr(default, name)
    }
    flags["kafka"] = options.kafka
    flags |= {name: True for name in ("members", *(["pairs"] if whole else [])) if getattr(scope, name)}
    flags |= {"brokers": scope.brokers} if scope.brokers != usual.brokers else {}
    if whole:
        lists = {name: getattr(scope, name) for name in ("programs", "kinds")}
        flags |= {name: ",".join(each) for name, each in lists.items() if each != getattr(usual, name)}
        flags |= {"errors": "all"} if scope.all_errors else {}
    words = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(str(value))}")
        for name, value in flags.items()
    ]
    return " ".join(["fencepost explore", *words])


def client_name(options: Options) -> str:
    """Return the client with the version of its library: `librdkafka-2.8.0`, `java-4.4.0`. Raises `UsageError`."""
    if options.driver is not None:
        if options.client != Options().client:
            raise UsageError("--driver and --client both choose the client: leave one of them out")
        driver = Driver.read(Path(options.driver).expanduser())
        return f"{driver.name}-{driver.version}"
    choice = ClientChoice.of(options.client)
    if choice.pinned is not None:
        return f"{choice.name}-{choice.pinned.library or choice.pinned.version}"
    return f"{choice.name}-{options.kafka if choice.name == 'java' else libversion()[0]}"


def _not_offered(options: Options, scope: Scope) -> list[str]:
    """Return the programs for which the client lacks a step. Raises `UsageError` if it offers none of them."""
    if options.driver is None:
        return []
    driver = Driver.read(Path(options.driver).expanduser())
    if scope.members:
        raise UsageError(
            "--members needs a client of the workers, and not a driver: leave one of the two out"
        )
    lacking = [name for name in scope.programs if not driver.offers(name)]
    if len(lacking) == len(scope.programs):
        raise UsageError(f"{driver.name} lacks {', '.join(driver.lacks)}, so it offers none of the programs")
    return lacking
