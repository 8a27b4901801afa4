"""From stored runs to verdicts: the checkers' findings, weighed with what the runs say of themselves."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from harness.errors import AnalysisFailed, FencepostError, UnreadableInput
from harness.facts import Facts
from harness.promises import SEGMENTS
from harness.reasons import Reason
from harness.record.schema import HISTORY, LOG, unfit
from harness.record.store import PLAN
from harness.runner.tabulate import tabulate, tabulated
from harness.settings.test_toml import Plan
from harness.verdict import CALLER, Judgement, Validity, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.judging.stored_runs import StoredRun

LARGE_BYTES = 10 * 1024 * 1024
"""Of Parquet, about a million rows, above which Spark is started for a large history."""


KILLED = Reason(
    "run-killed",
    "there is no facts.json: the run was killed before its end, or the file is gone; it is judged from what "
    "else is there",
    remedy="let the run come to its end: `fencepost replay` repeats it from its seed",
)


@dataclass(frozen=True)
class Evidence:
    """One run that can be judged."""

    history: str  # the path as it was given
    folder: Path
    plan: Plan
    facts: Facts | None  # None: the run was killed before its end
    incomplete: tuple[str, ...]  # what the tables lack of what the run's own files say

    @property
    def run(self) -> int:
        """Its number, which every row of its tables bears."""
        return int(self.plan.run["id"])

    @property
    def had_log(self) -> bool:
        """Whether the brokers' logs were read, as the run had promised."""
        return self.facts is not None and self.plan.promises.witness == SEGMENTS

    @property
    def size_bytes(self) -> int:
        """Of its tables."""
        return sum(path.stat().st_size for path in self.folder.glob("*/*.parquet"))


def open_evidence(history: str, folder: Path) -> Evidence:
    """Read what a run left; makes the tables of one that was killed. Raises `UnreadableInput`."""
    plan = Plan.load(folder / PLAN)
    number = str(plan.run.get("id", ""))
    if not (number.isascii() and number.isdecimal()):
        raise UnreadableInput(f"{folder / PLAN} does not say which run it is: [run] id is missing")
    told = folder / "facts.json"
    facts = Facts.load(told) if told.exists() else None
    if not tabulated(folder) and not (folder / "verdict.json").exists():
        tabulate(folder, plan)  # it ended before it came to that
    for room, tables in (("history", HISTORY), ("log", LOG)):
        if room == "history" or (folder / room).exists():
            for table in tables:
                _require(folder / room / f"{table}.parquet", int(number), facts.rows if facts else {})
    try:
        lacking = tuple(contradictions(folder, plan)) if facts else (KILLED.text,)
        evidence = Evidence(history, folder, plan, facts, lacking)
        _try(evidence)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise UnreadableInput(
            f"{folder}: {PLAN} or facts.json is not as the run wrote it ({type(error).__name__}: {error})"
        ) from error
    return evidence


def _try(evidence: Evidence) -> None:
    """Ask what will be asked of the run's own files; raises what comes of it if they are damaged."""
    facts = evidence.facts or Facts()
    told = evidence.plan.workload.get("allowed", []), facts.unexpected_errors
    if not all(
        isinstance(names, list | tuple) and all(isinstance(one, str) for one in names) for names in told
    ):
        raise TypeError("a list of words is none")
    healed_ns(facts)
    conclude(evidence, Judgement({}, {}, {}))


def _require(path: Path, run: int, rows: Mapping[str, int]) -> None:
    """A table must be there, whole, of its form, and of this run."""
    table = path.stem
    try:
        found = pq.read_metadata(path)
        schema = found.schema.to_arrow_schema()
    except (OSError, ValueError) as error:
        reason = "it is missing" if not path.exists() else str(error).splitlines()[0]
        raise UnreadableInput(f"{path} cannot be read: {reason}") from error
    if unfit(table, schema) is not None:
        raise UnreadableInput(f"{path} is not the table that it should be: its columns differ")
    if rows.get(table, found.num_rows) != found.num_rows:
        raise UnreadableInput(f"{path} has {found.num_rows} rows, and the run wrote {rows[table]}")
    column = schema.get_field_index("run")
    for group in range(found.num_row_groups):
        told = found.row_group(group).column(column).statistics
        if told is not None and told.has_min_max and not told.min == told.max == run:
            raise UnreadableInput(f"{path} has rows of run {told.min}, and this is run {run}")


def judge(
    spark: "SparkSession", runs: Sequence[Evidence], allow: frozenset[str] = frozenset()
) -> list[Verdict | FencepostError]:
    """A verdict for each run, all in one job, or why there is none; a copy of a run, which bears the same
    number, is judged in another. `allow`: anomalies that the caller permits beside the workload.
    """
    if not runs:
        return []
    first = {evidence.run: evidence for evidence in reversed(runs)}
    copies = [evidence for evidence in runs if first[evidence.run] is not evidence]
    verdicts = _judge_together(spark, list(first.values()), allow)
    later = dict(zip(map(id, copies), judge(spark, copies, allow), strict=True))
    return [later[id(run)] if id(run) in later else verdicts[run.run] for run in runs]


def judge_one(spark: "SparkSession", run: Evidence) -> Verdict:
    """The verdict of one run; raises why there is none."""
    (answer,) = judge(spark, [run])
    if isinstance(answer, FencepostError):
        raise answer
    return answer


def _judge_together(
    spark: "SparkSession", runs: Sequence[Evidence], allow: frozenset[str]
) -> dict[int, Verdict | FencepostError]:
    """By number, the verdicts of runs that share none."""
    from checkers.judging.stored_runs import judge_each

    stored = [_stored_run(evidence, allow) for evidence in runs]
    told = judge_each(spark, stored)
    return {
        evidence.run: why_not(evidence, judged)
        if isinstance(judged, FencepostError)
        else conclude(evidence, judged)
        for evidence in runs
        for judged in (told[evidence.run],)
    }


def why_not(evidence: Evidence, error: FencepostError) -> FencepostError:
    """Why a run has no verdict. A table whose pages are damaged fails in Spark in ways that name no file."""
    if isinstance(error, AnalysisFailed):
        for path in sorted(evidence.folder.glob("*/*.parquet")):
            try:
                pq.read_table(path, page_checksum_verification=True)
            except (OSError, ValueError):
                return UnreadableInput(f"{path} is damaged: a part of it cannot be read")
    return error


def _stored_run(evidence: Evidence, allow: frozenset[str]) -> "StoredRun":
    """What the checkers are told of a run."""
    from checkers.judging.stored_runs import StoredRun

    return StoredRun(
        run=evidence.run,
        folder=evidence.folder,
        wall_ms_at_zero=evidence.plan.run.get("wall_ms_at_zero"),
        allowed=dict.fromkeys(allow, CALLER)
        | dict.fromkeys(evidence.plan.workload.get("allowed", ()), "the workload"),
        incomplete=evidence.incomplete,
        had_log=evidence.had_log,
        healed_ns=healed_ns(evidence.facts) if evidence.facts else None,
        session_ms=evidence.plan.run.get("session_timeout_ms"),
    )


def healed_ns(facts: Facts) -> int | None:
    """When the last fault was healed, in run time; 0: there was none; None: nobody knows."""
    ends = [fault.end_s for fault in facts.faults if fault.acted]
    if None in ends:
        ends = [phase.end_s for phase in facts.phases if phase.name == "heal"]
        if not ends:
            return None
    return round(1e9 * max((end for end in ends if end is not None), default=0.0))


def contradictions(folder: Path, plan: Plan) -> Iterator[str]:
    """What the tables lack of what the run's own files say."""
    history = folder / "history"
    rows = pq.read_table(history / "stages.parquet").drop_columns("run").to_pylist()
    stages = {(row.pop("stage"), row.pop("in_topic")): row for row in rows}
    planned = {(stage.name, topic): stage for stage in plan.pipeline.stages for topic in stage.reads}
    if stages.keys() != planned.keys() or len(rows) != len(planned):
        had, held = (listed(f"{stage} of {topic}" for stage, topic in names) for names in (planned, stages))
        yield f"the table stages has {held}, and the run had {had}"
    for name, topic in sorted(stages.keys() & planned.keys()):
        for what, told in stages[name, topic].items():
            if told != (was := getattr(planned[name, topic], what)):
                yield f"the table stages has {told} as {what} of {name}, and the run had {was}"
    told = pq.read_table(history / "journals.parquet", columns=["journal"])["journal"].to_pylist()
    written = [path.stem for path in (folder / "journals").glob("*.jsonl")]
    # What was done to the cluster stands beside them, and is no witness.
    if missing := sorted(set(written) - set(told) - {"nemesis"}):
        yield f"the table journals lacks {listed(missing)}"
    places = pq.read_table(history / "partitions.parquet", columns=["topic", "partition"]).to_pylist()
    here = {(place["topic"], place["partition"]) for place in places}
    wanted = set(plan.pipeline.places)
    if gone := sorted(wanted - here):
        yield f"the table partitions lacks {listed(f'{topic}/{number}' for topic, number in gone)}"


def listed(names: Iterable[str]) -> str:
    """`a, b, c`, or that there is none."""
    return ", ".join(sorted(names)[:10]) or "none"


def conclude(evidence: Evidence, judgement: Judgement) -> Verdict:
    """Weigh the findings with the run's own circumstances: the worst wins."""
    from reports.summary import summary

    facts = evidence.facts or Facts()
    unmet, waived = _goals(evidence.plan, judgement)
    unmet_goals = {**facts.unmet_goals, **unmet}
    reasons = list(dict.fromkeys([*_reasons(evidence), *judgement.broken.values()]))
    reasons += _unstruck(evidence)
    reasons += [
        Reason("goal-not-met", f"{goal} was not exercised: {why}", goal) for goal, why in unmet_goals.items()
    ]
    valid = Validity.UNKNOWN if reasons else Validity.VALID
    if any(not found.allowed for found in judgement.anomalies.values()):
        valid = Validity.INVALID
    return Verdict(
        history=evidence.history,
        name=evidence.plan.options.run_name,
        seed=evidence.plan.options.seed,
        valid=valid,
        summary=summary(
            valid,
            judgement.anomalies,
            facts.faults,
            unknown_because=reasons,
            coverage=judgement.coverage,
            not_checked=judgement.not_checked,
        ),
        anomalies=judgement.anomalies,
        not_checked=judgement.not_checked,
        not_exercised={**facts.unscheduled, **waived, **unmet_goals},
        unknown_because=reasons,
        warnings=_warnings(facts),
        checked=judgement.checked,
        faults=facts.faults,
        coverage=judgement.coverage,
        stats=judgement.stats,
        unsettled=judgement.unsettled,
    )


def _reasons(evidence: Evidence) -> list[Reason]:
    """Why a run that says so itself cannot be valid."""
    if evidence.facts is None:
        return [KILLED]
    reasons = list(evidence.facts.evidence_problems)
    if evidence.facts.interrupted:
        remedy = "let the run come to its end: `fencepost replay` repeats it from its seed"
        reasons.insert(0, Reason("interrupted", "the run was interrupted", remedy=remedy))
    return reasons


def _unstruck(evidence: Evidence) -> list[Reason]:
    """The faults that were planned and did not do what they were for."""
    if evidence.facts is None:
        return []
    faults = evidence.facts.faults
    again = "repeat it with another `--seed`, or name the fault with `--nemesis` and a longer `--time-limit`"
    reasons = [
        Reason("fault-did-not-act", f"{fault.fault} did not act: {fault.evidence}", fault.fault, again)
        for fault in faults
        if not fault.acted
    ]
    reasons += [
        Reason("fault-not-healed", f"{fault.fault} was not healed", fault.fault)
        for fault in faults
        if fault.acted and fault.end_s is None
    ]
    missing = len(evidence.plan.schedule) - len(faults)
    if missing > 0:
        text = f"{missing} of the planned faults were never carried out"
        reasons.append(Reason("faults-not-carried-out", text, remedy="use a longer `--time-limit`"))
    return reasons


def _warnings(facts: Facts) -> list[Reason]:
    """What changes nothing, and is to be known."""
    return [
        Reason(
            "unexpected-end",
            words,
            words.partition(" ")[0],
            "its log stands in the run's folder, in workers/",
        )
        for words in facts.unexpected_errors
    ]


def _goals(plan: Plan, judgement: Judgement) -> tuple[dict[str, str], dict[str, str]]:
    """Goals that only the history can show, and that were not reached; and those that were waived."""
    missed = [goal for goal in plan.pipeline.goals if not judgement.coverage.get(goal.counted)]
    unmet = {goal.name: f"{goal.text}; {goal.remedy}" for goal in missed if not goal.waived}
    return unmet, {goal.name: goal.waived for goal in missed if goal.waived}
