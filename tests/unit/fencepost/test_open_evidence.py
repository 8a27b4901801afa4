"""Stored runs whose files are damaged or changed are refused or incomplete, before they are checked."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.checks.check import _open
from fencepost.checks.check_stored_runs import name_damaged_table, open_evidence
from fencepost.checks.evidence import MOST_SPAN, Evidence
from fencepost.checks.run_folders import find_histories
from harness.common.errors import AnalysisFailed, UnreadableInput
from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import SEGMENTS, Promises, ReaderPromise
from harness.model.vocabulary import Premise
from harness.record.run_tables import is_running, lock_run
from harness.results.run_metadata import NEW_FIELDS, RunMetadata
from harness.results.verdict import FaultReport, Validity, Verdict
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from harness.witness.tabulate import count_rows
from tests.support.histories import History
from tests.support.stored_tables import write_store


def promises_table(**fields: Any) -> dict[str, Any]:
    """The promises as a run writes them."""
    return asdict(Promises(**fields))


def set_promises(store: Path, **fields: Any) -> None:
    """Replace the promises of the run."""
    plan = StoredPlan.load(store / "run.toml")
    replace(plan, run={**plan.run, "promises": promises_table(**fields)}).save(store / "run.toml")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The complete evidence of run 7."""
    history = History()
    history.feed(2)
    history.transact(0, 1)
    write_store(tmp_path, [(7, history)], log=True)
    pipeline = PipelineSpec("w", (), (StageSpec("s", ("a",), "g"),))
    run = {"id": 7, "promises": promises_table(witness=SEGMENTS)}
    StoredPlan(Options(seed=1), run, [], pipeline.as_table()).save(tmp_path / "run.toml")
    fault = FaultReport(
        "kill-broker", "broker 2", 1.0, 9.0, True, "process 7 ended by SIGKILL", "broker 2 was killed"
    )
    RunMetadata(faults=[fault], rows=count_rows(tmp_path)).save(tmp_path / "metadata.json")
    return tmp_path


def test_an_unchanged_run_can_be_opened(store: Path) -> None:
    assert open_evidence("it", store).run == 7


def test_broken_premises_are_read_from_the_promises(store: Path) -> None:
    assert open_evidence("it", store).broken_premises == frozenset()
    for fields_, broken in (
        ({"broken_premises": ("whole-logs",)}, {Premise.WHOLE_LOGS}),
        ({"one_clock": False}, {Premise.ONE_CLOCK}),
    ):
        set_promises(store, **fields_)
        assert open_evidence("it", store).broken_premises == broken
    set_promises(store, broken_premises=("no-such",))
    with pytest.raises(UnreadableInput, match="not as the run wrote it"):
        open_evidence("it", store)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def of_another_run(rows: pa.Table) -> pa.Table:
    return rows.set_column(0, rows.schema.field("run"), pa.array([8] * len(rows), pa.int64()))


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("history/sends", lambda rows: rows.slice(1), "sends.parquet has 3 rows, and the run wrote 4"),
        ("log/batches", lambda rows: pa.concat_tables([rows, rows]), "rows, and the run wrote"),
        ("history/polls", of_another_run, "polls.parquet has rows of run 8, and this is run 7"),
        ("history/polls", lambda rows: rows.drop_columns("tp"), "its columns differ"),
    ],
)
def test_a_table_that_differs_from_what_the_run_wrote_is_named(
    store: Path, table: str, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    rewrite(store / f"{table}.parquet", change)
    with pytest.raises(UnreadableInput, match=message):
        open_evidence("it", store)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("id = 7", 'id = "²"'),
        ("topic = []", "topic = 5"),
        ("topic = []", ""),
        ("goals = []", ""),
        ("journaled = true", ""),
        ('promised = "read_committed"', ""),
        ('witness = "segments"', ""),
        ("[run.promises]", "[run.promised]"),
        ('name = "s"', 'nam = "s"'),
        ("[workload]", "[workload]\nof_a_later_version = 1"),
        ('witness = "segments"', 'witness = "segments"\nof_a_later_version = 1'),
        ("[workload]", '[workload]\nallowed = "lost-write"'),
        ("[workload]", "[workload]\nallowed = 5"),
        ("[workload]", '[workload]\nallowed = [["a"]]'),
        ("[run]", f"[run]\nmore = {'[' * 5000}{']' * 5000}"),
        ("[run]", f"[run]\nmore.{'.'.join('a' * 5000)} = 1"),
        ("id = 7", f"id = {2**63}"),
        ("id = 7", f"id = {'7' * 5000}"),
        ("[run]", "[run]\nwall_ms_at_zero = nan"),
        ("[run]", "[run]\nsession_timeout_ms = inf"),
    ],
)
def test_a_damaged_run_toml_is_reported(store: Path, old: str, new: str) -> None:
    text = (store / "run.toml").read_text()
    assert old in text
    (store / "run.toml").write_text(text.replace(old, new))
    with pytest.raises(UnreadableInput, match=r"run\.toml"):
        open_evidence("it", store)


@pytest.mark.parametrize("key", sorted({*RunMetadata.__struct_fields__} - NEW_FIELDS))
def test_every_key_of_metadata_json_is_required(key: str, store: Path) -> None:
    metadata = json.loads((store / "metadata.json").read_text())
    del metadata[key]
    (store / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(UnreadableInput, match=f"{key} is missing, and it is always written"):
        open_evidence("it", store)


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata: metadata["faults"][0].update(end_s=float("nan")),
        lambda metadata: metadata["faults"][0].update(end_s="soon"),
        lambda metadata: metadata["faults"][0].update(end_s=1e300),
        lambda metadata: metadata.update(evidence_problems="abc"),
        lambda metadata: metadata.update(unmet_goals=3),
        lambda metadata: metadata.update(unmet_goals=["a"]),
        lambda metadata: metadata.update(rows=3),
        lambda metadata: metadata.pop("phases"),
        lambda metadata: metadata.update(clock_drift_ms="much"),
        lambda metadata: metadata["faults"][0].update(acted="no"),
        lambda metadata: metadata["faults"][0].update(struck=3),
    ],
)
def test_a_damaged_metadata_json_is_reported(
    store: Path, change: Callable[[dict[str, object]], None]
) -> None:
    metadata = json.loads((store / "metadata.json").read_text())
    change(metadata)
    (store / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(UnreadableInput, match=r"metadata\.json"):
        open_evidence("it", store)


@pytest.mark.parametrize("name", ["metadata.json", "verdict.json"])
def test_a_json_object_with_a_key_twice_is_reported(store: Path, name: str) -> None:
    Verdict("it", "n", 1, Validity.VALID.json, "all is well").save(store / "verdict.json")
    load = {"metadata.json": RunMetadata.load, "verdict.json": Verdict.load}[name]
    load(store / name)
    text = (store / name).read_text()
    (store / name).write_text(
        text.replace('"warnings":', '"seed": 1, "warnings":').replace('"churn":', '"phases": [], "churn":')
    )
    with pytest.raises(UnreadableInput, match=r'has the key "(phases|seed)" twice'):
        load(store / name)


TOPIC = """
[[workload.topic]]
name = "a"
partitions = {partitions}
replication = {replication}
config = {{}}
identity = "journal"
"""


@pytest.mark.parametrize(
    ("partitions", "replication", "message"),
    [
        (100_000_000, 1, "have 100,000,000 partitions, and a run has at most 200,000"),
        (0, 1, "has 0 partitions"),
        (-1, 1, "has -1 partitions"),
        (1, 40_000, "40,000 replicas"),
        ("true", 1, "expected a whole number"),
        (2.0, 1, "expected a whole number"),
    ],
)
def test_a_number_of_partitions_that_no_cluster_has_is_refused(
    store: Path, partitions: object, replication: object, message: str
) -> None:
    text = (store / "run.toml").read_text().replace("topic = []\n", "")
    topic = TOPIC.format(partitions=partitions, replication=replication)
    (store / "run.toml").write_text(f"{text}{topic}")
    with pytest.raises(UnreadableInput, match=message):
        open_evidence("it", store)


def _first(**cells: object) -> Callable[[pa.Table], pa.Table]:
    """Change cells of the first row of a table."""

    def change(rows: pa.Table) -> pa.Table:
        first, *others = rows.to_pylist()
        return pa.Table.from_pylist([first | cells, *others], schema=rows.schema)

    return change


@pytest.mark.parametrize(
    ("table", "cells", "message"),
    [
        ("log/batches", {"last_offset": 10**9}, "a batch has the offsets 0 to 1,000,000,000"),
        ("log/batches", {"base_offset": 10**9}, "a batch has the offsets 1,000,000,000 to 0"),
        (
            "log/batches",
            {"base_offset": -(2**63), "last_offset": 2**63 - 1},
            "a batch has the offsets -9,223,3",
        ),
        ("history/claims", {"next": 10**12}, "a claim has the offsets 0 to 1,000,000,000,000"),
    ],
)
def test_a_range_of_offsets_that_would_fill_the_memory_is_refused(
    store: Path, table: str, cells: dict[str, object], message: str
) -> None:
    rewrite(store / f"{table}.parquet", _first(**cells))
    with pytest.raises(UnreadableInput, match=message):
        open_evidence("it", store)


def test_many_ranges_that_are_too_long_together_are_refused(store: Path) -> None:
    path = store / "log" / "batches.parquet"
    rows = [row | {"last_offset": row["base_offset"] + MOST_SPAN} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows * 10, schema=pq.read_schema(path)), path)
    metadata = json.loads((store / "metadata.json").read_text())
    (store / "metadata.json").write_text(json.dumps(metadata | {"rows": {}}))
    with pytest.raises(UnreadableInput, match=r"its rows have .* offsets, and at most .* are expected"):
        open_evidence("it", store)


def test_a_table_with_more_rows_than_its_bytes_can_have_is_refused(store: Path) -> None:
    path = store / "history" / "assignments.parquet"
    schema = pq.read_schema(path)
    cells = {field.name: pa.nulls(3_000_000, field.type) for field in schema}
    pq.write_table(pa.table(cells, schema=schema), path, row_group_size=3_000_000)
    metadata = json.loads((store / "metadata.json").read_text())
    (store / "metadata.json").write_text(json.dumps(metadata | {"rows": {}}))
    with pytest.raises(UnreadableInput, match=r"it has 3,000,000 rows in .* bytes, which no run writes"):
        open_evidence("it", store)


def test_a_list_that_no_run_writes_is_refused(store: Path) -> None:
    path = store / "log" / "transactions.parquet"
    rewrite(path, _first(tps=[0] * 1_000_000))
    with pytest.raises(UnreadableInput, match="its lists have 1,000,003 values in 3 rows"):
        open_evidence("it", store)


def test_counted_log_rows_prove_that_the_run_had_broker_logs(store: Path) -> None:
    set_promises(store, witness="none")
    metadata = json.loads((store / "metadata.json").read_text())
    counted = {"batches": pq.read_metadata(store / "log" / "batches.parquet").num_rows}
    for rows, had in ((counted, True), ({}, False)):
        (store / "metadata.json").write_text(json.dumps(metadata | {"rows": rows}))
        assert open_evidence("it", store).had_log is had


def test_logs_of_all_replicas_are_required_if_the_run_promised_them(store: Path) -> None:
    plan = StoredPlan.load(store / "run.toml")
    metadata = json.loads((store / "metadata.json").read_text())
    (store / "metadata.json").write_text(json.dumps(metadata | {"rows": {}}))
    stored = pq.read_table(store / "log" / "replicas.parquet")["tp"].to_pylist().count(0)
    for replication, promised, count in ((stored, True, 0), (stored + 1, True, 1), (stored + 1, False, 0)):
        pipeline = replace(plan.pipeline, topics=(TopicSpec("a", 1, replication),))
        replace(plan, workload=pipeline.as_table()).save(store / "run.toml")
        set_promises(store, witness="segments", replicas=promised)
        why = [text for text in open_evidence("it", store).differences if "replicas" in text]
        assert len(why) == count, why
    assert stored == 1


def test_a_deeply_nested_metadata_json_is_reported(store: Path) -> None:
    (store / "metadata.json").write_text("[" * 100_000)
    with pytest.raises(UnreadableInput, match=r"metadata\.json cannot be read"):
        open_evidence("it", store)


def test_a_table_with_damaged_pages_is_named_although_spark_does_not(store: Path) -> None:
    evidence, failed = open_evidence("it", store), AnalysisFailed("the analysis failed: index out of bounds")
    assert name_damaged_table(evidence, failed) is failed
    path = store / "history" / "polls.parquet"
    body = bytearray(path.read_bytes())
    body[4:60] = b"\xff" * 56
    path.write_bytes(body)
    assert "polls.parquet is damaged" in str(name_damaged_table(evidence, failed))
    assert name_damaged_table(evidence, broken := UnreadableInput("x")) is broken


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "promised",
            "read_uncommitted",
            "has read_uncommitted as promised of s, and the run had read_committed",
        ),
        ("ordered", True, "has True as ordered of s, and the run had False"),
        ("stage", "t", "the table stages has t of a, and the run had s of a"),
    ],
)
def test_a_stage_that_differs_from_the_plan_makes_the_evidence_incomplete(
    store: Path, column: str, value: object, message: str
) -> None:
    assert open_evidence("it", store).differences == ()

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        return rows.set_column(at, rows.schema.field(at), pa.array([value], rows.schema.field(at).type))

    rewrite(store / "history" / "stages.parquet", change)
    assert message in open_evidence("it", store).differences[0]


def test_a_promised_reader_without_a_journal_makes_the_evidence_incomplete(store: Path) -> None:
    stored = pq.read_table(store / "history" / "journals.parquet")["journal"].to_pylist()
    for journals, missing in ((stored[:1], ()), ((*stored[:1], "observer-1"), ("observer-1",))):
        readers = (ReaderPromise(name, "observer", "read_committed", ("a",)) for name in journals)
        set_promises(store, readers=tuple(readers))
        differences = open_evidence("it", store).differences
        assert [
            message.rpartition(": ")[2] for message in differences if "promised readers" in message
        ] == list(missing)


def test_a_duplicate_stage_makes_the_evidence_incomplete(store: Path) -> None:
    metadata = json.loads((store / "metadata.json").read_text())
    (store / "metadata.json").write_text(
        json.dumps(metadata | {"rows": {}})
    )  # so that the number of rows is not checked
    rewrite(store / "history" / "stages.parquet", lambda rows: pa.concat_tables([rows, rows]))
    assert open_evidence("it", store).differences == ("the table stages has a stage twice",)


def test_the_evidence_of_a_killed_run_is_incomplete(store: Path) -> None:
    (store / "metadata.json").unlink()
    (why,) = open_evidence("it", store).differences
    assert "killed" in why


def test_a_journal_in_no_table_is_missing_except_that_of_the_faults(store: Path) -> None:
    (store / "journals").mkdir()
    for name in ("nemesis", "gone"):
        (store / "journals" / f"{name}.jsonl").write_text("")
    assert open_evidence("it", store).differences == ("the table journals lacks gone",)


def test_a_table_with_rows_of_two_runs_is_refused(store: Path) -> None:
    def half(rows: pa.Table) -> pa.Table:
        runs = pa.array([7 + (n > 0) for n in range(len(rows))], pa.int64())
        return rows.set_column(0, rows.schema.field("run"), runs)

    rewrite(store / "history" / "sends.parquet", half)
    with pytest.raises(UnreadableInput, match="has rows of run"):
        open_evidence("it", store)


def test_a_run_that_has_not_ended_is_not_checked(store: Path, tmp_path: Path) -> None:
    def opened() -> object:
        return _open(str(store), store)

    assert isinstance(opened(), Evidence)
    with lock_run(store):
        result = opened()
        assert isinstance(result, UnreadableInput) and "is a run that has not ended" in str(result)
    assert isinstance(opened(), Evidence)
    assert not is_running(tmp_path / "nowhere")


def test_an_empty_path_is_not_the_working_directory() -> None:
    (history,) = find_histories("")
    assert history.error == "a path is empty: name a stored run, a store, or a history file"


def _change_rows(path: Path, change: Callable[[dict[str, object]], dict[str, object] | None]) -> None:
    """Change the rows of a table. A row for which `change` returns None is removed."""
    table = pq.read_table(path)
    rows = [changed for row in table.to_pylist() if (changed := change(row)) is not None]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def _returns_before_its_call(row: dict[str, object]) -> dict[str, object]:
    return row | {"return_ns": -1}


def test_operations_that_return_before_their_call_are_a_contradiction(store: Path) -> None:
    assert not [text for text in open_evidence("it", store).differences if "returned before" in text]
    _change_rows(store / "history" / "ops.parquet", _returns_before_its_call)
    assert [text for text in open_evidence("it", store).differences if "returned before" in text]


def test_a_replica_of_an_internal_topic_that_is_missing_is_a_contradiction(store: Path) -> None:
    set_promises(store, replicas=True, witness="segments", internal_logs=("__consumer_offsets",))
    history = History()
    history.followers = 2
    history.topic_partitions["o"] = ("__consumer_offsets", 1)
    history.topics.append("o")
    history.tp["o"], history.entries["o"] = len(history.tp), []
    history.feed(2)
    history.transact(0, 1)
    write_store(store, [(7, history)], log=True)
    RunMetadata(rows=count_rows(store)).save(store / "metadata.json")
    wording = "replicas of __consumer_offsets"
    assert not [text for text in open_evidence("it", store).differences if wording in text]
    removed = (history.tp["o"], 3)
    path = store / "log" / "replicas.parquet"
    _change_rows(path, lambda row: None if (row["tp"], row["broker"]) == removed else row)
    RunMetadata(rows=count_rows(store)).save(store / "metadata.json")
    assert [text for text in open_evidence("it", store).differences if wording in text]


def test_partitions_that_have_other_numbers_than_in_the_plan_are_a_contradiction(store: Path) -> None:
    plan = StoredPlan.load(store / "run.toml")
    topics = (TopicSpec("a", 1), TopicSpec("x", 1))
    pipeline = PipelineSpec("w", topics, plan.pipeline.stages)
    replace(plan, workload=pipeline.as_table()).save(store / "run.toml")
    wording = "other numbers than the run's plan"
    assert not [text for text in open_evidence("it", store).differences if wording in text]
    swapped = {0: 1, 1: 0}
    path = store / "history" / "partitions.parquet"
    _change_rows(path, lambda row: row | {"tp": swapped.get(row["tp"], row["tp"])})
    assert [text for text in open_evidence("it", store).differences if f"{wording}: a/0, x/0" in text]


def test_nulls_in_a_key_are_damage(store: Path) -> None:
    path = store / "history" / "ops.parquet"
    table = pq.read_table(path)
    nullable = pa.schema([field.with_nullable(True) for field in table.schema])
    rows = [row | {"op": None} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=nullable), path)
    with pytest.raises(UnreadableInput, match="column op has nulls, and no run writes them"):
        open_evidence("it", store)
