"""Show a run's folder as one self-contained HTML file.

The file needs no network and no other file, and can be read without scripts.

If the folder lacks something, the report says so; the verdict does not change. The template escapes all recorded
text. Styles and scripts are inline, and the content security policy permits exactly these, by their hashes. The data
of the time axis is in the page as JSON, in a `script` element that no browser executes.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from jinja2 import TemplateError
from markupsafe import Markup

from harness.common import wording as words
from harness.common.errors import UnreadableInput
from harness.common.wording import redact_text
from harness.model import kafka_protocol
from harness.record.protocol_journal import JOURNAL, ProtocolJournal
from harness.record.table_reader import MOST_CHANGED_REQUESTS, RunTables
from harness.results.conclusions import Recurrence
from harness.results.example import Example, Operation
from harness.results.reasons import by_cause
from harness.results.verdict import FaultReport, Validity, Verdict
from reports import under_way
from reports.conclusions import (
    compare_with_control,
    conclusions,
    describe_not_decided,
    describe_recurrence,
    for_others,
    next_step,
    recurrences_of,
)
from reports.findings_text import describe_indeterminate
from reports.html import checked, excerpts, folder
from reports.html.findings import ReportAnomaly, examples, report_anomalies
from reports.html.stories import ReportStory, report_stories
from reports.html.template import WIDTHS, Drawings, policy, template
from reports.html.under_test import ObservedFact, observed, program_logs
from reports.junit import junit
from reports.liveness_text import describe_recovery, recovery_details
from reports.pictures import static
from reports.pictures.axis import Line, Pane, embed, time_axis
from reports.series import Series, into_buckets
from reports.settings import flatten, setting_text
from reports.story.points import changed_request_spans
from reports.story.roles import ProducerUse, producers
from reports.story.run import Story
from reports.story.scopes import folder_argument
from reports.story.subjects import Interval, ShownFinding, spans
from reports.summary import causes_first, describe_invalid

MOST_PRODUCERS = 40
MOST_EARLIER = 20
"""With so many other runs of its name, at most, a run is compared."""
MORE_LOGS = "run it on a local cluster, where all logs can be read"
STYLES = ("report.css", "axis.css", "vendor/uplot/uPlot.min.css")
SCRIPTS = ("report.js", "vendor/uplot/uPlot.iife.min.js", "axis.js")
KEYS = {
    "slot": "expected output",
    "due": "must lead to",
    "op": "number of the operation",
    "ops": "operations",
    "ok": "operations that succeeded",
    "fail": "operations that failed",
    "info": "operations without a known outcome",
    "info_committed": "of these, committed according to the logs",
    "info_aborted": "of these, aborted according to the logs",
    "info_open": "of these, still open according to the logs",
    "inputs": "inputs that are visible",
    "outputs": "outputs that are visible",
    "committed": "committed transactions",
    "aborted": "aborted transactions",
    "fenced": "operations that were fenced",
}
"""What keys of `verdict.json` are called on the page."""
FACTS = {"committed": "committed offset", "committed_before": "committed offset before"}
"""Labels of keys that have another meaning in an example than in `KEYS`."""
_HERE = Path(__file__).parent


def write_report(
    folder_path: Path,
    verdict: Verdict,
    duration_s: float,
    meanings: Mapping[str, checked.CheckMeaning] | None = None,
) -> None:
    """Write `report.html` and `junit.xml` into the folder of a run. An error is logged and does not change the
    verdict.

    Args:
        folder_path: the run folder
        verdict: its verdict
        duration_s: how long the run took
        meanings: by check, what it looks for
    """
    try:
        (folder_path / "junit.xml").write_text(junit([(verdict, duration_s)]), encoding="utf-8")
        (folder_path / "report.html").write_text(draw(folder_path, verdict, meanings), encoding="utf-8")
    except (OSError, TemplateError) as error:
        logging.getLogger(__name__).error("the report of %s could not be written: %s", folder_path, error)


def draw(
    folder_path: Path, verdict: Verdict, meanings: Mapping[str, checked.CheckMeaning] | None = None
) -> str:
    """Return the HTML report of one run. `meanings` says by check what it looks for."""
    contents = folder.load(folder_path)
    faults = list(verdict.faults) or list(contents.metadata.faults if contents.metadata else ())
    ordered = causes_first(verdict.anomalies)
    operations = (operation for example in examples(ordered) for operation in example.operations)
    lines = excerpts.Excerpts(folder_path, operations)
    tables = RunTables(folder_path)
    run_story = Story(tables, faults, contents.metadata.phases if contents.metadata else ())
    protocol, unread = _read_protocol(tables)
    traceable = folder_path if tables.wall_ms_at_zero is not None else None
    shown = list(examples(ordered))
    spans, unplaced = _read_spans(run_story, shown)
    anomalies = report_anomalies(ordered, faults, protocol, traceable, spans)
    stories, unread_stories = report_stories(run_story, ordered)
    met_by_fault, trouble = _describe_met(tables, faults) if not run_story.timeline.missing else ([], [])
    axis = time_axis(run_story, examples=shown, findings=list(_shown_findings(anomalies)))
    axis = replace(axis, panes=[*axis.panes, *densities(verdict)])
    (facts, uses), unobserved = _read_observed(run_story)
    notes = (trouble, unread_stories, unread, unplaced, unobserved)
    styles = [(_HERE / name).read_text(encoding="utf-8") for name in STYLES]
    scripts = [(_HERE / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return template("report.html", _filters(tables.wall_ms_at_zero)).render(
        verdict=verdict,
        summary=_summary(verdict, stories),
        word={True: "valid", False: "invalid", "unknown": "unknown"}[verdict.valid],
        policy=policy(styles, scripts),
        styles=[Markup(style) for style in styles],
        scripts=[Markup(script) for script in scripts],
        axis=axis,
        store=_store(traceable),
        placed={each.ident: each.span for anomaly in anomalies for each in anomaly.shown if each.span}
        | {story.ident: story.interval for story in stories if story.interval},
        axis_data=Markup(embed({"store": _store(traceable), "axis": None if axis.empty else axis.as_json()})),
        contents=contents,
        metadata=contents.metadata,
        met=met_by_fault,
        stories=stories,
        lines=lines,
        phases=_phases(contents),
        settings=_settings(contents),
        promised=promised(contents),
        observed=facts,
        producers=uses[:MOST_PRODUCERS],
        more_producers=max(0, len(uses) - MOST_PRODUCERS),
        program_logs=list(program_logs(folder_path, contents.table("options"))),
        enclosed=folder.files_to_enclose(folder_path, len(verdict.line().encode()) + 1),
        missing=list(
            dict.fromkeys(chain(contents.missing, run_story.timeline.missing, *notes, axis.missing))
        ),
        **_part_conclusions(folder_path, verdict, _command(verdict, contents)),
        **_part_faults(faults),
        **_part_findings(anomalies),
        **_part_over_time(run_story, faults, protocol),
        **_part_checks(verdict, contents, meanings),
    )


def _part_conclusions(folder_path: Path, verdict: Verdict, command: str) -> dict[str, Any]:
    """Return the values of the template about where findings come from, and what to do with them."""
    return {
        "command": command,
        "conclusions": list(conclusions(verdict.anomalies)),
        "control": list(compare_with_control(verdict, verdict.control)) if verdict.control else [],
        "next_step": next_step(verdict, command),
        "for_others": for_others(verdict),
        "not_decided": [(describe_not_decided(rows), rows) for rows in verdict.not_decided],
        "earlier": earlier_runs(folder_path, verdict),
    }


def _part_faults(faults: Sequence[FaultReport]) -> dict[str, Any]:
    """Return the values of the template about faults and the recovery from them."""
    return {
        "faults": faults,
        "recovered": any(fault.liveness for fault in faults),
        "measured_faults": [
            (number, fault)
            for number, fault in enumerate(faults, 1)
            if fault.liveness and fault.liveness.not_known is None
        ],
    }


def _part_findings(anomalies: Sequence[ReportAnomaly]) -> dict[str, Any]:
    """Return the findings for the template, by what they mean for the verdict."""
    return {
        "bad": [anomaly for anomaly in anomalies if not anomaly.findings.allowed],
        "warnings": [anomaly for anomaly in anomalies if anomaly.findings.warning],
        "allowed": [
            anomaly for anomaly in anomalies if anomaly.findings.allowed and not anomaly.findings.warning
        ],
    }


def _part_over_time(story: Story, faults: Sequence[FaultReport], protocol: ProtocolJournal) -> dict[str, Any]:
    """Return the values of the template about rates, latencies and changed requests."""
    measured = into_buckets(story.seconds)
    changed = protocol.under_way()[:MOST_CHANGED_REQUESTS]
    drawn = (static.over_time(measured, faults, width, changed_request_spans(protocol)) for width in WIDTHS)
    return {
        "series": measured,
        "over_time": Drawings(*drawn),
        "rows_over_time": list(_rows(measured)),
        "changed": changed,
        "more_changed": len(protocol.changed) + protocol.more - len(changed),
    }


def _part_checks(
    verdict: Verdict, contents: folder.RunFiles, meanings: Mapping[str, checked.CheckMeaning] | None
) -> dict[str, Any]:
    """Return the values of the template about checks without findings, and about what is not certain."""
    unknown = verdict.validity is Validity.UNKNOWN
    return {
        "open_ends": list(_open_ends(verdict, contents)),
        "open_title": "Why it is unknown" if unknown else "Not exercised, or not certain",
        "clean": checked.clean(verdict, meanings),
        "not_applicable": checked.not_applicable(verdict),
        "requests": list(kafka_protocol.rows(verdict.requests)),
    }


def _label(key: str) -> str:
    return words.printable(KEYS.get(key, key.replace("_", " ")), 60)


def densities(verdict: Verdict) -> Iterator[Pane]:
    """Yield a pane for each anomaly that decides the verdict: what it affects over time."""
    for name, findings in verdict.anomalies.items():
        when = findings.affected.over_time if findings.affected else None
        if findings.allowed or when is None or not when.counts:
            continue
        edges = [when.from_s + n * when.width_s for n in range(len(when.counts) + 1)]
        values: list[float | None] = [round(count / when.width_s, 2) for count in when.counts]
        noun = words.printable(findings.affected.noun if findings.affected else "", 30)
        title = f"Affected by {words.printable(name, 60)}"
        yield Pane(title, f"{noun}/s", edges, [Line(noun, "fail", [*values, values[-1]])])


def promised(contents: folder.RunFiles) -> str:
    """Return what the pipeline promised: `exactly-once; its consumers: read committed`. Empty: it is not known."""
    workload = contents.table("workload")
    guarantee = workload.get("guarantee")
    stages = workload.get("stages")
    levels = {
        str(stage["promised"]).replace("_", " ")
        for stage in (stages if isinstance(stages, list) else ())
        if isinstance(stage, Mapping) and stage.get("promised")
    }
    parts = [words.printable(guarantee, 60)] if guarantee else []
    parts += [f"its consumers read: {words.join_words(sorted(levels))}"] if levels else []
    return "; ".join(parts)


def earlier_runs(folder_path: Path, verdict: Verdict) -> tuple[int, list[Recurrence]]:
    """Return how many runs of this name are compared, this one included, and how often each finding came in them."""
    others: list[Verdict] = []
    for path in sorted(folder_path.resolve().parent.glob("*/verdict.json"), reverse=True):
        if path.parent != folder_path.resolve() and len(others) < MOST_EARLIER:
            with suppress(UnreadableInput):
                others.append(Verdict.load(path))
    return len(others) + 1, recurrences_of([verdict, *others]) if others else []


def _filters(wall_ms: float | None) -> dict[str, Callable[..., Any]]:
    """Return the filters of the template. `wall_ms` is the wall clock at the start of the run; None: not known."""
    return {
        "show": lambda value, limit=words.LIMIT: redact_text(words.printable(value, limit)),
        "number": _number,
        "seconds": words.seconds,
        "fact": lambda key: FACTS.get(key) or _label(key),
        "label": _label,
        "moment": partial(_moment, wall_ms=wall_ms),
        "clock": _clock,
        "since": lambda time_ns: f"{time_ns / 1e9:,.3f} s",
        "window": window,
        "recurrence": describe_recurrence,
        "href": lambda folder: quote(f"{folder}/report.html"),
        "recovery": describe_recovery,
        "recovery_details": recovery_details,
    }


def _read_spans(story: Story, shown: Sequence[Example]) -> tuple[list[Interval | None], list[str]]:
    """Return when each example happened, and notes about errors."""
    try:
        return spans(story, shown), []
    except (UnreadableInput, pa.ArrowException) as error:
        note = words.printable(f"the times of findings cannot be read: {error}", 300)
        return [None] * len(shown), [note]


def _read_observed(story: Story) -> tuple[tuple[list[ObservedFact], list[ProducerUse]], list[str]]:
    """Return what the logs show of the programs and of their producers, and notes about errors."""
    try:
        return (observed(story.tables), producers(story)), []
    except (UnreadableInput, pa.ArrowException) as error:
        return ([], []), [words.printable(f"what was under test cannot be read: {error}", 300)]


def _shown_findings(anomalies: Sequence[ReportAnomaly]) -> Iterator[ShownFinding]:
    for anomaly in anomalies:
        for example in anomaly.shown:
            decides = not anomaly.findings.allowed
            yield ShownFinding(
                anomaly.name, example.ident, example.sentence, example.span, decides, anomaly.findings.count
            )


def _store(traceable: Path | None) -> str | None:
    """Return the run folder as an argument of `fencepost trace`. None: the command would be refused."""
    return folder_argument(traceable) if traceable is not None and str(traceable).isprintable() else None


def window(from_s: float, to_s: float | None) -> str:
    """Return the link that shows an interval on the time axis, with some time around it."""
    margin_s = max(0.5, ((to_s or from_s) - from_s) / 5)
    return f"#t={max(from_s - margin_s, 0):.3f}-{(to_s or from_s) + margin_s:.3f}"


def _moment(operation: Operation, name: str, wall_ms: float | None = None) -> str:
    """Return a time of an operation to the millisecond, with the UTC time as in the brokers' logs.

    `wall_ms` is the wall clock at the start of the run. None: the UTC time is left out.
    """
    if name not in operation.facts:
        return "unknown"
    nanoseconds = words.integer(operation.get(name))
    if nanoseconds is None:
        return "never"
    at = f"at {nanoseconds / 1e9:,.3f} s"
    if wall_ms is None:
        return at
    try:
        clock = datetime.fromtimestamp((wall_ms + nanoseconds / 1e6) / 1e3, UTC)
    except (ValueError, OverflowError, OSError):  # outside the range of datetime
        return at
    return f"{at} ({clock:%H:%M:%S}.{clock.microsecond // 1000:03} UTC)"


def _clock(started: object) -> str:
    """Return the start time, for example `2026-11-21 10:00:00 UTC`."""
    text = words.printable(started, 40).replace("T", " ", 1)
    return re.sub(r"(Z|\+00:00)$", " UTC", text)


def _number(value: object) -> str:
    return words.number(value) if isinstance(value, int | float) else words.printable(value)


def _rows(measured: Series) -> Iterator[dict[str, Any]]:
    """Yield the numbers of the drawing as table rows."""
    for bucket in measured.buckets:
        median_ms, p99_ms = measured.quantile_ms(bucket, 0.5), measured.quantile_ms(bucket, 0.99)
        yield {
            "at": bucket * measured.width_s,
            "committed": words.number(round(measured.committed[bucket] / measured.width_s, 1)),
            "records": words.number(round(measured.records[bucket] / measured.width_s, 1)),
            "median": "" if median_ms is None else words.milliseconds(median_ms),
            "p99": "" if p99_ms is None else words.milliseconds(p99_ms),
            "outcomes": [
                [measured.ended(stage, category)[bucket] for category in measured.categories]
                for stage in measured.stages
            ],
        }


def _describe_met(tables: RunTables, faults: Sequence[FaultReport]) -> tuple[list[str], list[str]]:
    """Return the operations that were under way during each fault, in words, and notes about errors."""
    try:
        return under_way.describe_met(tables, faults), []
    except (UnreadableInput, pa.ArrowException) as error:
        return [], [words.printable(f"the operations under way during faults cannot be read: {error}", 300)]


def _read_protocol(tables: RunTables) -> tuple[ProtocolJournal, list[str]]:
    """Return the journal of the protocol proxy, and notes about what cannot be read of it."""
    try:
        protocol = tables.protocol
    except UnreadableInput as error:
        return ProtocolJournal(), [words.printable(str(error), 300)]
    if protocol.missing:
        return protocol, [f"{JOURNAL} is missing, so the requests that rules changed are not shown"]
    lines = f"{words.plural(protocol.damaged, 'line')} of {JOURNAL} cannot be read"
    return protocol, [lines] if protocol.damaged else []


def _summary(verdict: Verdict, stories: Sequence[ReportStory]) -> str:
    """Return the summary of the verdict. If causes are known, they replace the last faults before the findings."""
    causes = [story.summary for story in stories if story.summary]
    return describe_invalid(verdict.anomalies, causes) if causes else verdict.summary


def _phases(contents: folder.RunFiles) -> Drawings:
    if contents.metadata is None:
        return Drawings(None, None)
    return Drawings(*(static.phases(contents.metadata.phases, width) for width in WIDTHS))


def _open_ends(
    verdict: Verdict, contents: folder.RunFiles
) -> Iterator[tuple[str, Sequence[str], str, str] | tuple[str, Sequence[str], str, str, Sequence[str]]]:
    """Yield (kind, names, why, what to change) for everything that is unknown, not exercised, not checked or
    indeterminate. For a reason that makes the run unknown, yield as well the reasons that follow from it.
    """
    for reason, consequences in by_cause(verdict.unknown_because):
        yield "unknown", (), reason.text, reason.remedy, [consequence.text for consequence in consequences]
    unscheduled = contents.metadata.unscheduled if contents.metadata else {}
    for name, why in {**unscheduled, **verdict.not_exercised}.items():
        if not any(reason.text.endswith(why) for reason in verdict.unknown_because):
            yield "not exercised", (name,), why, ""  # the reason says what helps, if anything does
    for reason, names in checked.without_evidence(verdict):
        yield "not checked", names, reason.text, reason.remedy  # a longer run would not help
    if verdict.unsettled.count:
        yield "indeterminate", (), describe_indeterminate(verdict.unsettled), MORE_LOGS


def _settings(contents: folder.RunFiles) -> dict[str, list[tuple[str, str]]]:
    """Return the tables of run.toml without the schedule. Top-level values are in the table ''."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for name, body in contents.settings.items():
        if name == "schedule":
            continue
        if isinstance(body, Mapping):
            # `client` is that of the workers of a workload: a program of the user has its own.
            foreign = name == "options" and body.get("pipeline") is not None
            tables[words.printable(name, 60)] = [
                (words.printable(key, 80), setting_text(key, value))
                for key, value in flatten(body)
                if not (foreign and key == "client")
            ]
        else:
            tables.setdefault("", []).append((words.printable(name, 60), words.printable(body, 400)))
    return tables


def _command(verdict: Verdict, contents: folder.RunFiles) -> str:
    command = contents.table("run").get("command")
    if isinstance(command, list):
        command = " ".join(str(word) for word in command)
    return words.printable(command or f"fencepost replay {verdict.history}", 4000)
