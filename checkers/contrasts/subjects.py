"""Select the subjects of findings, and a sample of those without one, with the facts by which they are compared.

The sample is bounded, so that a comparison needs no more memory for a long run. Each row of the sample has a `weight`:
the number of subjects that it represents.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import PERMITTED_SUFFIX
from checkers.spark.frames import broadcast, local_table
from checkers.stored.sources import Sources
from checkers.stored.tables import Tables

LEAST = 4
"""Fewer affected subjects are not compared with the others: their examples say all."""
MOST_SAMPLED = 250_000
"""About so many subjects of a run and kind are compared: of those with a finding, and of the others."""
MOST_ROWS = 1_000_000
"""If a run has more batches or offset commits, they are not compared."""
INPUT, RECORD, TRANSACTION = "inputs", "records", "transactions"
_INPUTS = ("input", "inputs[0]")
_RECORDS = ("record", "records[0]", "gone_records[0]", "aborted_records[0]", "read", "unread", "following")


@dataclass(frozen=True)
class SampledSubjects:
    """The subjects of one run and kind: all or a sample of those with a finding, and a sample of the others.

    Columns of `rows`, as far as the kind has them: tp, offset, op, key, timestamp_ms, size_bytes, expected (contents of
    its expected outputs), other_tp (of an input: the partition of its first output; of a record: that of its input),
    producer_id, marker_ms, journal, call_ns, size (records of a transaction), weight (the subjects of the run that the
    row represents), anomalies.
    """

    rows: pa.Table
    counts: Mapping[str, int]  # by anomaly, the subjects with a finding
    total: int


@dataclass(frozen=True)
class RunSubjects:
    """The subjects of one run by kind, and what their positions are compared with. A table of None is too large."""

    kinds: Mapping[str, SampledSubjects] = field(default_factory=dict)
    commits: pa.Table | None = None  # group, tp, committed, log_offset, timestamp_ms, producer_id, journal
    batches: pa.Table | None = None  # tp, base_offset, last_offset
    ids: Mapping[int, str] = field(default_factory=dict)  # by producer id: its transactional id

    def of(self, anomaly: str) -> tuple[str, SampledSubjects] | None:
        """Return the kind and the subjects of an anomaly. None: it has too few to be compared."""
        return next(((kind, each) for kind, each in self.kinds.items() if anomaly in each.counts), None)


def select_subjects(s: Sources, tables: Tables, findings: DataFrame) -> dict[int, RunSubjects]:
    """Return by run the subjects of the anomalies that have at least `LEAST`.

    Args:
        findings: all findings of all runs, in the form `checkers.findings.FINDING`
    """
    hits = _hits(findings)
    counted = hits.groupBy("run", "kind", "anomaly").agg(F.expr("count(1) as subjects")).toArrow().to_pylist()
    many = [row for row in counted if row["subjects"] >= LEAST]
    counts: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for row in many:
        counts[row["run"], row["kind"]][row["anomaly"]] = row["subjects"]
    if not counts:
        return {}
    runs = sorted({run for run, _ in counts})
    in_runs = f"run in {_numbers(runs)}"
    universe = {kind: each.where(in_runs) for kind, each in _universe(s, tables).items()}
    kinds: dict[int, dict[str, SampledSubjects]] = defaultdict(dict)
    for kind in sorted({kind for _, kind in counts}):
        of_kind = {run: of_run for (run, each), of_run in counts.items() if each == kind}
        totals = {
            row["run"]: row["subjects"]
            for row in universe[kind].groupBy("run").agg(F.expr("count(1) as subjects")).toArrow().to_pylist()
        }
        sample = _sample(s, universe[kind], hits.where(f"kind = '{kind}'"), of_kind, totals, kind)
        for run, rows in _split(sample.toArrow(), of_kind):
            # A finding may be about a subject that is not visible, such as an aborted record.
            kinds[run][kind] = SampledSubjects(
                rows, of_kind[run], max(totals.get(run, 0), *of_kind[run].values())
            )
    commits = _bounded(_commits(s, tables).where(in_runs), runs)
    batches = _bounded(
        tables.batches.where(f"{in_runs} and not internal").select("run", "tp", "base_offset", "last_offset"),
        runs,
    )
    ids = _transactional_ids(s, in_runs)
    return {run: RunSubjects(kinds[run], commits[run], batches[run], ids[run]) for run in runs}


def _hits(findings: DataFrame) -> DataFrame:
    """Select the subject of each finding once: run, anomaly, kind, tp, offset, op."""

    def first(paths: Sequence[str], name: str) -> str:
        values = [f"get_json_object(detail, '$.{path}.{name}')" for path in paths]
        return f"coalesce({', '.join(values)})"

    def of_kind(kind: str, value: str) -> str:
        return f"if(kind = '{kind}', {value}, null)"

    return (
        findings.where(f"not endswith(anomaly, '{PERMITTED_SUFFIX}')")
        .selectExpr(
            "run",
            "anomaly",
            *(f"cast({first(_INPUTS, name)} as bigint) as in_{name}" for name in ("tp", "offset")),
            *(f"cast({first(_RECORDS, name)} as bigint) as own_{name}" for name in ("tp", "offset")),
            "get(ops, 0) as op",
        )
        .selectExpr(
            "*",
            f"case when in_offset is not null then '{INPUT}' when own_offset is not null then '{RECORD}' "
            f"when op is not null then '{TRANSACTION}' end as kind",
        )
        .where("kind is not null")
        .selectExpr(
            *("run", "anomaly", "kind"),
            f"coalesce({of_kind(INPUT, 'in_tp')}, {of_kind(RECORD, 'own_tp')}) as tp",
            f"coalesce({of_kind(INPUT, 'in_offset')}, {of_kind(RECORD, 'own_offset')}) as offset",
            f"{of_kind(TRANSACTION, 'op')} as op",
        )
        .distinct()
    )


def _universe(s: Sources, tables: Tables) -> dict[str, DataFrame]:
    """Return by kind the subjects of all runs: run, tp, offset, op, and what the shared tables say of them."""
    nothing = "cast(null as bigint)"
    expected = "size(expected) > 0 or size(adds) > 0"
    owing = tables.inputs.where(expected).select("run").distinct().toArrow()["run"].to_pylist()
    # An input of a topic that owes nothing, such as a table that is joined, is no input that could be affected.
    owes_nothing = f"run not in {_numbers(owing)}" if owing else "true"
    inputs = tables.inputs.where(f"visible and ({expected} or {owes_nothing})").selectExpr(
        *("run", "cast(tp as bigint) as tp", "offset", f"{nothing} as op"),
        "cast(get(filter(outputs, o -> o.visible), 0).tp as bigint) as other_tp",
    )
    records = tables.log_entries.where(
        "found and not internal and not sentinel and (not is_input or size(inputs) > 0)"
    ).selectExpr(
        *("run", "cast(tp as bigint) as tp", "offset", f"{nothing} as op", "producer_id", "marker_ms"),
        "cast(get(inputs, 0).tp as bigint) as other_tp",
    )
    transactions = tables.operations.where("operation.f = 'txn'").selectExpr(
        *("run", f"{nothing} as tp", f"{nothing} as offset", "op"),
        *("operation.journal", "operation.call_ns", "size(records) as size"),
    )
    return {INPUT: inputs, RECORD: records, TRANSACTION: transactions}


def _numbers(runs: Collection[int]) -> str:
    """Return SQL for a list of runs, which must not be empty."""
    return f"({', '.join(f'{run}L' for run in runs)})"


def _sample(
    s: Sources,
    universe: DataFrame,
    hits: DataFrame,
    counts: Mapping[int, Mapping[str, int]],
    totals: Mapping[int, int],
    kind: str,
) -> DataFrame:
    """Select the sample of one kind, and add the facts of its records."""
    spark = universe.sparkSession
    weights = local_table(
        spark,
        pa.table(
            {
                "run": pa.array(list(counts), pa.int64()),
                "w_hit": [-(-max(of_run.values()) // MOST_SAMPLED) for of_run in counts.values()],
                "w_other": [-(-totals.get(run, 1) // MOST_SAMPLED) or 1 for run in counts],
            }
        ),
    )
    pairs = [(run, anomaly) for run, of_run in counts.items() for anomaly in of_run]
    wanted = local_table(
        spark,
        pa.table(
            {"run": pa.array([run for run, _ in pairs], pa.int64()), "anomaly": [name for _, name in pairs]}
        ),
    )
    by = ["run", "op"] if kind == TRANSACTION else ["run", "tp", "offset"]
    found = (
        hits.join(broadcast(wanted), on=["run", "anomaly"], how="left_semi")
        .groupBy(*by)
        .agg(F.expr("collect_set(anomaly) as anomalies"))
    )
    sample = (
        universe.join(found, on=by, how="full")
        .join(broadcast(weights), on="run", how="inner")
        .selectExpr("*", "if(anomalies is null, w_other, w_hit) as weight")
        .where(f"pmod(xxhash64({', '.join(by[1:])}), weight) = 0")
        .drop("w_hit", "w_other")
    )
    if kind == TRANSACTION:
        return sample
    record = s["records"].selectExpr(
        "run", "cast(tp as bigint) as tp", "offset", "key", "timestamp_ms", "size_bytes"
    )
    sample = sample.join(record, on=by, how="left")
    if kind == INPUT:
        content = (
            s["expected"]
            .where("content is not null")
            .groupBy("run", "tp", "offset")
            .agg(F.expr("array_sort(collect_list(content)) as expected"))
            .withColumn("tp", F.expr("cast(tp as bigint)"))
        )
        sample = sample.join(content, on=by, how="left")
    return sample


def _commits(s: Sources, tables: Tables) -> DataFrame:
    """Select the offset commits that took effect, with the process that made them."""
    stored = s["offsets"].selectExpr("run", "log_tp as tp", "log_offset as offset", "timestamp_ms")
    names = s["ops"].select("run", "op", "journal")
    return (
        tables.log_entries.where("commit.committed is not null and fate in ('commit', 'plain')")
        .select("run", "tp", "offset", "commit")
        .join(stored, on=["run", "tp", "offset"], how="inner")
        .selectExpr(
            *("run", "commit.group", "commit.tp", "commit.committed", "offset as log_offset", "timestamp_ms"),
            *("commit.producer_id", "commit.op"),
        )
        .join(names, on=["run", "op"], how="left")
        .drop("op")
    )


def _transactional_ids(s: Sources, in_runs: str) -> dict[int, dict[int, str]]:
    rows = (
        s["transactions"]
        .where(f"{in_runs} and producer_id is not null")
        .groupBy("run", "producer_id")
        .agg(F.expr("max(transactional_id) as transactional_id"))
    )
    ids: dict[int, dict[int, str]] = defaultdict(dict)
    for row in rows.toArrow().to_pylist():
        ids[row["run"]][row["producer_id"]] = row["transactional_id"]
    return ids


def _bounded(frame: DataFrame, runs: Collection[int]) -> dict[int, pa.Table | None]:
    """Collect a table, and split it by run. None: it has more than `MOST_ROWS` rows."""
    rows = frame.limit(MOST_ROWS + 1).toArrow()
    if len(rows) > MOST_ROWS:
        return dict.fromkeys(runs)
    return dict(_split(rows, runs))


def _split(rows: pa.Table, runs: Collection[int]) -> Iterator[tuple[int, pa.Table]]:
    for run in runs:
        yield run, rows.filter(pc.equal(rows["run"], run)).drop_columns(["run"])
