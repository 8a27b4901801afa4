"""Write the folder of a reproducer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from harness.common.documents import decode, encode, parse_toml, read_toml
from harness.common.errors import UnreadableInput, UsageError
from harness.common.wording import REDACTED, printable
from harness.record.run_tables import PLAN
from harness.record.table_reader import RunTables
from harness.results.example import Example
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict
from reports.conclusions import for_others
from reports.findings_text import describe_count, describe_meaning
from reports.pictures.trace_lines import trace_lines
from reports.reproducer.cleaning import Cleaning
from reports.reproducer.diagram import draw_file
from reports.reproducer.finding import Finding, shown_finding
from reports.reproducer.known_places import Machine, cleaning_of
from reports.reproducer.log_excerpts import broker_lines, cleaned, cleaned_printed, names_in, program_lines
from reports.reproducer.plan import cleaned_plan
from reports.reproducer.program_files import ProgramFiles, program_files
from reports.reproducer.readme import ReadmeParts, readme
from reports.story.model import Point
from reports.story.run import Story
from reports.story.scopes import TraceSubject, trace_subjects

NOT_SHOWN_TO_NEED_A_FAULT = (
    "Nothing shows that the findings need a fault: there is no clean control run beside this one. So look first for a "
    "mistake in the program, its configuration or the expectation. `fencepost run ... --control` makes a control."
)
Describe = Callable[[str, Example], str]
"""Returns the sentence for an example of an anomaly."""


@dataclass(frozen=True)
class _Run:
    """A run that becomes a reproducer."""

    folder: Path
    settings: Mapping[str, Any]
    verdict: Verdict
    tables: RunTables
    zero_ms: float
    finding: Finding | None


def write_reproducer(
    folder: Path,
    verdict: Verdict,
    output: Path,
    describe: Describe,
    defaults: Mapping[str, Any],
    *,
    with_values: bool = False,
    machine: Machine | None = None,
) -> list[str]:
    """Write the folder `output`, which must not exist. Returns notes for its reader.

    Args:
        folder: the folder of a run that is invalid, or unknown
        verdict: its verdict
        output: the new folder
        describe: writes the sentence of a finding again, from facts that are cleaned
        defaults: the defaults of the options, as `run.toml` has them
        with_values: whether the contents of records stay
        machine: the machine on which the reproducer is made; None: this one

    Raises `UsageError` if `output` exists or cannot be written, and `UnreadableInput` if the run is damaged.
    """
    if output.exists() or output.is_symlink():
        raise UsageError(f"{output} exists: name a new folder with --out, or remove it")
    settings = _read_settings(folder)
    cleaning = cleaning_of(folder, settings, machine or Machine.here(), with_values=with_values)
    zero_ms = settings.get("run", {}).get("wall_ms_at_zero")
    zero_ms = float(zero_ms) if isinstance(zero_ms, int | float) else 0.0
    tables = RunTables(folder, zero_ms)
    run = _Run(folder, settings, verdict, tables, zero_ms, shown_finding(tables, verdict))
    files = _files(run, cleaning, describe, defaults)
    try:
        output.mkdir(parents=True)
        for name, text in files.texts.items():
            path = output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror or error}: name another folder with --out"
        ) from error
    return files.notes


@dataclass(frozen=True)
class _Files:
    texts: Mapping[str, str]
    notes: list[str]


def _read_settings(folder: Path) -> dict[str, Any]:
    try:
        return read_toml(folder / PLAN)
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"{folder / PLAN} cannot be read: {error}") from error


def _files(run: _Run, cleaning: Cleaning, describe: Describe, defaults: Mapping[str, Any]) -> _Files:
    """Return the files of the folder, all cleaned, and the notes."""
    option = run.settings.get("options", {}).get("pipeline")
    pipeline = Path(str(option)) if option is not None else None
    program = program_files(pipeline, cleaning) if pipeline is not None else ProgramFiles()
    plan, notes = cleaned_plan(run.settings, cleaning, program.plan_name if pipeline else None)
    notes += program.notes
    if run.verdict.validity is Validity.INVALID and not for_others(run.verdict):
        notes.append(NOT_SHOWN_TO_NEED_A_FAULT)
    verdict = _reduced_verdict(run, cleaning, describe)
    drawn = draw_file(run.finding.diagram, cleaning.text) if run.finding else None
    texts = {
        PLAN: plan,
        "verdict.json": json.dumps(encode(verdict), ensure_ascii=False, indent=1) + "\n",
        **program.files,
        **({"diagram.svg": drawn} if drawn is not None else {}),
    }
    parts = _readme_parts(
        run, cleaning, verdict, parse_toml(plan), ["README.md", *texts], notes, program.inputs
    )
    parts = replace(parts, defaults=defaults, binaries=program.binaries)
    return _Files({"README.md": readme(parts), **texts}, notes)


def _reduced_verdict(run: _Run, cleaning: Cleaning, describe: Describe) -> Verdict:
    """Return the verdict with the finding alone, cleaned."""
    whole = run.verdict
    anomalies: dict[str, AnomalyFindings] = {}
    if run.finding is not None:
        facts = run.finding.example.as_json()
        example = Example.from_json(cleaning.example(facts))
        has_contents = example.as_json() != cleaning.settings(facts)
        # The stored sentence may contain contents of records, so it is written again from their digests.
        sentence = describe(run.finding.anomaly, example) if has_contents else run.finding.sentence
        anomalies[run.finding.anomaly] = structs.replace(
            run.finding.findings, examples=[example], sentences=[cleaning.text(sentence)], because=None
        )
    return Verdict(
        history=".",
        name=cleaning.text(whole.name),
        seed=whole.seed,
        valid=whole.valid,
        summary=cleaning.text(whole.summary),
        anomalies=anomalies,
        unknown_because=[
            structs.replace(
                reason,
                subject=cleaning.text(reason.subject),
                text=cleaning.text(reason.text),
                remedy=cleaning.text(reason.remedy),
                because=cleaning.text(reason.because),
            )
            for reason in whole.unknown_because
        ],
        checked=list(whole.checked),
        faults=[decode(cleaning.settings(encode(fault)), FaultReport) for fault in _faults(run)],
        coverage=dict(whole.coverage),
        stats=dict(whole.stats),
    )


def _faults(run: _Run) -> Sequence[FaultReport]:
    return run.verdict.faults or run.tables.metadata.faults


def _readme_parts(
    run: _Run,
    cleaning: Cleaning,
    verdict: Verdict,
    plan: Mapping[str, Any],
    files: Sequence[str],
    notes: Sequence[str],
    inputs: Sequence[Path],
) -> ReadmeParts:
    finding, options = run.finding, plan.get("options", {})
    subject, points = _trace(run)
    broker_log, program_log = _logs(run, cleaning, points, inputs)
    anomaly = finding.anomaly if finding else None
    findings = verdict.anomalies[anomaly] if anomaly else None
    name = cleaning.text(
        str(run.settings.get("workload", {}).get("name", options.get("workload", "unknown")))
    )
    secrets = [f"broker.{key}" for key, value in options.get("broker", {}).items() if value == REDACTED]
    return ReadmeParts(
        valid=verdict.validity,
        pipeline=f"the pipeline {name}" if "pipeline" in options else f"the workload {name}",
        summary=verdict.summary,
        anomaly=anomaly,
        meaning=describe_meaning(findings) if findings else "",
        count=describe_count(str(anomaly), findings) if findings else "",
        sentence=printable(findings.sentences[0], 2000) if findings else "",
        cause=[cleaning.text(sentence) for sentence in finding.cause] if finding else [],
        faults=verdict.faults,
        options=options,
        began=_utc(run.zero_ms),
        commit=str(run.settings.get("run", {}).get("commit", "")),
        versions={
            key: _without_origin(key, cleaning.text(value))
            for key, value in run.tables.metadata.versions.items()
        },
        settings_needed=[*secrets, *_cluster_settings(run)],
        notes=[*notes],
        files=files,
        binaries=(),
        subject=cleaning.text(f"{_SUBJECTS[subject.option]} {subject.name}") if subject else "",
        steps=list(trace_lines([_cleaned_point(point, cleaning) for point in points])),
        broker_log=broker_log,
        program_log=program_log,
        has_diagram="diagram.svg" in files,
        with_values=cleaning.with_values,
    )


def _utc(zero_ms: float) -> str:
    """Return for example `2026-11-28T03:16:30.123+00:00`. Empty: the time is not known."""
    return datetime.fromtimestamp(zero_ms / 1000, UTC).isoformat(timespec="milliseconds") if zero_ms else ""


IN_LOGS = ("log of ", "coordinator of ")
"""How the actors of the points begin that tell when a finding happened. Readers come later, and faults last longer."""
_SUBJECTS = {"record": "the record", "op": "the operation", "id": "the transactional id"}


def _without_origin(name: str, version: str) -> str:
    """Return `17` for `17 (PATH)`: where Java or PostgreSQL was found is not of interest elsewhere."""
    return version.partition(" (")[0] if name in ("java", "postgres") else version


def _cluster_settings(run: _Run) -> list[str]:
    """Return the options that say how to reach an external cluster."""
    options = run.settings.get("options", {})
    return [key for key in ("bootstrap", "client-config") if key in options]


def _trace(run: _Run) -> tuple[TraceSubject | None, list[Point]]:
    """Return the subject of the finding and its points. None: the tables cannot answer."""
    if run.finding is None:
        return None, []
    (subject,) = trace_subjects(run.tables, [run.finding.example])
    return (subject, subject.points(Story(run.tables))) if subject else (None, [])


def _cleaned_point(point: Point, cleaning: Cleaning) -> Point:
    content = None if point.content is None else cleaning.content(point.content)
    return replace(point, actor=cleaning.text(point.actor), words=cleaning.text(point.words), content=content)


def _logs(
    run: _Run, cleaning: Cleaning, points: Sequence[Point], inputs: Sequence[Path]
) -> tuple[list[str], list[str] | None]:
    """Return the lines of brokers and of programs around the finding. None: contents cannot be recognised in them."""
    finding = run.finding
    interval_ns = finding.interval_ns if finding else None
    times_ns = [
        point.at_ns for point in points if point.at_ns is not None and point.actor.startswith(IN_LOGS)
    ]
    if interval_ns is None and times_ns:
        interval_ns = (min(times_ns), max(times_ns))
    names = names_in(finding.example.as_json()) | finding.names(run.tables) if finding else set()
    last_ns = finding.last_ns if finding else None
    brokers = cleaned(broker_lines(run.folder, run.zero_ms, interval_ns, names, last_ns), cleaning)
    lines = program_lines(run.folder, run.zero_ms, interval_ns, names)
    is_own = run.settings.get("options", {}).get("pipeline") is None
    return brokers, cleaned(lines, cleaning) if is_own else cleaned_printed(
        lines, cleaning, run.tables, inputs
    )


def require_reproducible(folder: Path, verdict: Verdict, *, force: bool) -> None:
    """Raise `UsageError` if there is nothing to reproduce.

    A valid run shows nothing. An unknown run proves nothing, and a maintainer should not have to find this out; but a
    call that never returns (librdkafka #5511) only shows as unknown. So an unknown run needs `force`.
    """
    if verdict.validity is Validity.VALID:
        raise UsageError(f"{folder} is valid: there is nothing to reproduce; name an invalid run")
    if verdict.validity is Validity.UNKNOWN and not force:
        raise UsageError(
            f"{folder} is unknown, so it proves nothing ({printable(verdict.summary, 300)}): name an invalid run, or "
            "use --force if the reason itself is the bug"
        )
