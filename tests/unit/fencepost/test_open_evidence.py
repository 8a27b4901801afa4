"""A stored run whose files are not as the run left them gets one sentence, before anything is judged."""

import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.checks.check import _open
from fencepost.checks.decide import name_damaged_table, open_evidence
from fencepost.checks.evidence import Evidence
from fencepost.checks.run_folders import find_histories
from harness.common.errors import AnalysisFailed, UnreadableInput
from harness.model.pipeline import PipelineSpec, StageSpec, TopicSpec
from harness.model.promises import SEGMENTS, Promises, ReaderPromise
from harness.model.vocabulary import Premise
from harness.record.run_tables import is_running, lock_run
from harness.results.run_metadata import RunMetadata
from harness.results.verdict import FaultReport
from harness.runner.tabulate import count_rows
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from tests.support.histories import History
from tests.support.stored_tables import write


def promises(**told: Any) -> dict[str, Any]:
    """As a run writes them."""
    return asdict(Promises(**told))


def promise(store: Path, **told: Any) -> None:
    """Let the run have promised this."""
    plan = StoredPlan.load(store / "run.toml")
    replace(plan, run={**plan.run, "promises": promises(**told)}).save(store / "run.toml")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Run 7, whole."""
    history = History()
    history.feed(2)
    history.take(0, 1)
    write(tmp_path, [(7, history)], log=True)
    pipeline = PipelineSpec("w", (), (StageSpec("s", ("a",), "g"),))
    run = {"id": 7, "promises": promises(witness=SEGMENTS)}
    StoredPlan(Options(seed=1), run, [], pipeline.as_table()).save(tmp_path / "run.toml")
    fault = FaultReport(
        "kill-broker", "broker 2", 1.0, 9.0, True, "process 7 ended by SIGKILL", "broker 2 was killed"
    )
    RunMetadata(faults=[fault], rows=count_rows(tmp_path)).save(tmp_path / "metadata.json")
    return tmp_path


def test_a_run_as_it_was_left_can_be_judged(store: Path) -> None:
    assert open_evidence("it", store).run == 7


def test_a_run_says_which_premises_it_breaks(store: Path) -> None:
    assert open_evidence("it", store).broken_premises == frozenset()
    for told, broken in (
        ({"broken_premises": ("whole-logs",)}, {Premise.WHOLE_LOGS}),
        ({"one_clock": False}, {Premise.ONE_CLOCK}),
    ):
        promise(store, **told)
        assert open_evidence("it", store).broken_premises == broken
    promise(store, broken_premises=("no-such",))
    with pytest.raises(UnreadableInput, match="not as the run wrote it"):
        open_evidence("it", store)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def of_another_run(rows: pa.Table) -> pa.Table:
    return rows.set_column(0, rows.schema.field("run"), pa.array([8] * len(rows), pa.int64()))


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("history/sends", lambda rows: rows.slice(1), "sends.parquet has 3 rows, and the run wrote 4"),
        ("log/batches", lambda rows: pa.concat_tables([rows, rows]), "rows, and the run wrote"),
        ("history/polls", of_another_run, "polls.parquet has rows of run 8, and this is run 7"),
        ("history/polls", lambda rows: rows.drop_columns("tp"), "its columns differ"),
    ],
)
def test_a_table_that_is_not_the_run_s_is_named(
    store: Path, table: str, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    rewrite(store / f"{table}.parquet", change)
    with pytest.raises(UnreadableInput, match=words):
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
        ("[workload]", '[workload]\nallowed = "lost-write"'),
        ("[workload]", "[workload]\nallowed = 5"),
        ("[workload]", '[workload]\nallowed = [["a"]]'),
    ],
)
def test_a_test_toml_that_is_damaged_is_said(store: Path, old: str, new: str) -> None:
    text = (store / "run.toml").read_text()
    assert old in text
    (store / "run.toml").write_text(text.replace(old, new))
    with pytest.raises(UnreadableInput, match=r"run\.toml"):
        open_evidence("it", store)


@pytest.mark.parametrize("key", [one.name for one in fields(RunMetadata)])
def test_all_that_a_run_says_of_itself_must_be_there(key: str, store: Path) -> None:
    facts = json.loads((store / "metadata.json").read_text())
    del facts[key]
    (store / "metadata.json").write_text(json.dumps(facts))
    with pytest.raises(UnreadableInput, match=f"{key} is missing, and every run writes it"):
        open_evidence("it", store)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["faults"][0].update(end_s=float("nan")),
        lambda facts: facts["faults"][0].update(end_s="soon"),
        lambda facts: facts["faults"][0].update(end_s=1e300),
        lambda facts: facts.update(evidence_problems="abc"),
        lambda facts: facts.update(unmet_goals=3),
        lambda facts: facts.update(unmet_goals=["a"]),
        lambda facts: facts.update(rows=3),
        lambda facts: facts.pop("phases"),
        lambda facts: facts.update(clock_drift_ms="much"),
        lambda facts: facts["faults"][0].update(acted="no"),
        lambda facts: facts["faults"][0].update(struck=3),
    ],
)
def test_a_facts_json_that_is_damaged_is_said(
    store: Path, change: Callable[[dict[str, object]], None]
) -> None:
    facts = json.loads((store / "metadata.json").read_text())
    change(facts)
    (store / "metadata.json").write_text(json.dumps(facts))
    with pytest.raises(UnreadableInput, match=r"metadata\.json"):
        open_evidence("it", store)


def test_logs_that_the_run_counted_were_there_whatever_it_is_made_to_promise(store: Path) -> None:
    promise(store, witness="none")
    facts = json.loads((store / "metadata.json").read_text())
    counted = {"batches": pq.read_metadata(store / "log" / "batches.parquet").num_rows}
    for rows, had in ((counted, True), ({}, False)):
        (store / "metadata.json").write_text(json.dumps(facts | {"rows": rows}))
        assert open_evidence("it", store).had_log is had


def test_the_logs_of_all_replicas_are_asked_for_if_the_run_had_them(store: Path) -> None:
    plan = StoredPlan.load(store / "run.toml")
    facts = json.loads((store / "metadata.json").read_text())
    (store / "metadata.json").write_text(json.dumps(facts | {"rows": {}}))
    there = pq.read_table(store / "log" / "replicas.parquet")["tp"].to_pylist().count(0)
    for replication, promised, said in ((there, True, 0), (there + 1, True, 1), (there + 1, False, 0)):
        pipeline = replace(plan.pipeline, topics=(TopicSpec("a", 1, replication),))
        replace(plan, workload=pipeline.as_table()).save(store / "run.toml")
        promise(store, witness="segments", replicas=promised)
        why = [words for words in open_evidence("it", store).incomplete if "replicas" in words]
        assert len(why) == said, why
    assert there == 1


def test_facts_as_deep_as_a_well_are_said(store: Path) -> None:
    (store / "metadata.json").write_text("[" * 100_000)
    with pytest.raises(UnreadableInput, match=r"metadata\.json cannot be read"):
        open_evidence("it", store)


def test_a_table_whose_pages_are_damaged_is_named_whatever_spark_says(store: Path) -> None:
    evidence, failed = open_evidence("it", store), AnalysisFailed("the analysis failed: index out of bounds")
    assert name_damaged_table(evidence, failed) is failed
    path = store / "history" / "polls.parquet"
    body = bytearray(path.read_bytes())
    body[4:60] = b"\xff" * 56
    path.write_bytes(body)
    assert "polls.parquet is damaged" in str(name_damaged_table(evidence, failed))
    assert name_damaged_table(evidence, broken := UnreadableInput("x")) is broken


@pytest.mark.parametrize(
    ("column", "told", "words"),
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
def test_a_stage_that_is_not_as_it_was_planned_makes_a_run_unknown(
    store: Path, column: str, told: object, words: str
) -> None:
    assert open_evidence("it", store).incomplete == ()

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        return rows.set_column(at, rows.schema.field(at), pa.array([told], rows.schema.field(at).type))

    rewrite(store / "history" / "stages.parquet", change)
    assert words in open_evidence("it", store).incomplete[0]


def test_a_reader_that_was_promised_and_left_nothing_makes_a_run_unknown(store: Path) -> None:
    there = pq.read_table(store / "history" / "journals.parquet")["journal"].to_pylist()
    for journals, blind in ((there[:1], ()), ((*there[:1], "observer-1"), ("observer-1",))):
        readers = (ReaderPromise(name, "observer", "read_committed", ("a",)) for name in journals)
        promise(store, readers=tuple(readers))
        told = open_evidence("it", store).incomplete
        assert [words.rpartition(": ")[2] for words in told if "promised readers" in words] == list(blind)


def test_a_stage_that_stands_twice_makes_a_run_unknown(store: Path) -> None:
    facts = json.loads((store / "metadata.json").read_text())
    (store / "metadata.json").write_text(json.dumps(facts | {"rows": {}}))  # nobody counted them
    rewrite(store / "history" / "stages.parquet", lambda rows: pa.concat_tables([rows, rows]))
    assert open_evidence("it", store).incomplete == ("the table stages has a stage twice",)


def test_a_run_that_was_killed_lacks_its_end(store: Path) -> None:
    (store / "metadata.json").unlink()
    (why,) = open_evidence("it", store).incomplete
    assert "killed" in why


def test_a_journal_that_is_in_no_table_is_missing_but_for_that_of_the_faults(store: Path) -> None:
    (store / "journals").mkdir()
    for name in ("nemesis", "gone"):
        (store / "journals" / f"{name}.jsonl").write_text("")
    assert open_evidence("it", store).incomplete == ("the table journals lacks gone",)


def test_rows_of_two_runs_in_one_table_are_told(store: Path) -> None:
    def half(rows: pa.Table) -> pa.Table:
        runs = pa.array([7 + (n > 0) for n in range(len(rows))], pa.int64())
        return rows.set_column(0, rows.schema.field("run"), runs)

    rewrite(store / "history" / "sends.parquet", half)
    with pytest.raises(UnreadableInput, match="has rows of run"):
        open_evidence("it", store)


def test_a_run_that_is_still_going_on_is_not_judged(store: Path, tmp_path: Path) -> None:
    def opened() -> object:
        return _open(str(store), store)

    assert isinstance(opened(), Evidence)
    with lock_run(store):
        answer = opened()
        assert isinstance(answer, UnreadableInput) and "this run has not ended" in str(answer)
    assert isinstance(opened(), Evidence)
    assert not is_running(tmp_path / "nowhere")


def test_an_empty_path_is_not_the_folder_where_we_are() -> None:
    (given,) = find_histories("")
    assert given.error == "a path is empty: name a stored run, a store, or a history file"


def _bend(path: Path, change: Callable[[dict[str, object]], dict[str, object] | None]) -> None:
    """Change the rows of a table; None takes one away."""
    table = pq.read_table(path)
    rows = [bent for row in table.to_pylist() if (bent := change(row)) is not None]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def _returns_before_its_call(row: dict[str, object]) -> dict[str, object]:
    return row | {"return_ns": -1}


def test_operations_that_return_before_their_call_are_a_contradiction(store: Path) -> None:
    assert not [one for one in open_evidence("it", store).incomplete if "returned before" in one]
    _bend(store / "history" / "ops.parquet", _returns_before_its_call)
    assert [one for one in open_evidence("it", store).incomplete if "returned before" in one]


def test_a_replica_of_an_internal_topic_that_is_missing_is_a_contradiction(store: Path) -> None:
    promise(store, replicas=True, witness="segments", internal_logs=("__consumer_offsets",))
    history = History()
    history.followers = 2
    history.homes["o"] = ("__consumer_offsets", 1)
    history.topics.append("o")
    history.tp["o"], history.entries["o"] = len(history.tp), []
    history.feed(2)
    history.take(0, 1)
    write(store, [(7, history)], log=True)
    RunMetadata(rows=count_rows(store)).save(store / "metadata.json")
    said = "replicas of __consumer_offsets"
    assert not [one for one in open_evidence("it", store).incomplete if said in one]
    gone = (history.tp["o"], 3)
    path = store / "log" / "replicas.parquet"
    _bend(path, lambda row: None if (row["tp"], row["broker"]) == gone else row)
    RunMetadata(rows=count_rows(store)).save(store / "metadata.json")
    assert [one for one in open_evidence("it", store).incomplete if said in one]
