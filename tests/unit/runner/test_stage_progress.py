"""A stage without a group is finished when the positions that it prints reach the ends of its inputs."""

import sqlite3
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.common.errors import WaitTimeout
from harness.model.pipeline import StageSpec, TopicPartition
from harness.processes.spawn import Supervisor
from harness.processes.specs import CommandLine, ProgressCommand
from harness.results.run_metadata import StageProgress
from harness.runner import end_markers as ends_module
from harness.runner.end_markers import OffsetEndMarkers
from harness.runner.final_state import quiesce
from harness.runner.progress import ProgressCommands, ProgressNotKnown, read_progress
from harness.testing.fake_cluster import FakeCluster
from tests.support.fake_run import CUSTOM_PIPELINE, FakeRun, fake_run
from tests.support.instances import RUNS_FOREVER
from tests.unit.runner.test_quiescence import SOON

(GROUPED,) = CUSTOM_PIPELINE.stages
STAGE = replace(GROUPED, group=None, progress=True, idle_s=10_000.0, metadata_max_age_s=0.2)
PIPELINE = replace(CUSTOM_PIPELINE, stages=(STAGE,))
ENDS: Mapping[TopicPartition, tuple[int, int, int]] = {("in", 0): (0, 7, 7), ("in", 1): (0, 5, 5)}


class Printed:
    """An `AskProgress` that prints one text a call; the last is repeated. An error is raised."""

    def __init__(self, *texts: str | ProgressNotKnown) -> None:
        self.texts = list(texts)

    def __call__(self, stage: StageSpec) -> str:
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        if isinstance(text, ProgressNotKnown):
            raise text
        return text


@pytest.fixture(autouse=True)
def count_by_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the records by offsets, without a consumer: no topic of these tests has markers."""
    monkeypatch.setattr(
        ends_module,
        "count_unread",
        lambda bootstrap, positions: sum(
            ENDS[partition][1] - offset for partition, offset in positions.items()
        ),
    )


def markers(*texts: str | ProgressNotKnown) -> OffsetEndMarkers:
    return OffsetEndMarkers(FakeCluster(ends=dict(ENDS)), Printed(*texts), {"s": "`./positions`"})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("in 0 7\nin 1 5\n", 0),
        ("in 0 3\n\n  in   1   5  \n", 4),
        ("in 1 5", 7),  # partition 0 is not begun
        ("", 12),
        ("9", 3),
        ("12\n", 0),
        ("0", 12),
    ],
)
def test_positions_or_a_number_say_how_many_inputs_are_left(text: str, left: int) -> None:
    ends = markers(text)
    assert ends.inputs_left(STAGE, starting=False) == left
    assert ends.progress["s"].left == left and ends.progress["s"].not_known == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("in 0", "printed 'in 0', and its output must be lines TOPIC PARTITION OFFSET"),
        ("in 0 -1", "printed 'in 0 -1', and its output must be"),
        ("in zero 1", "printed 'in zero 1', and its output must be"),
        ("7\n8", "printed '7', and its output must be"),
        ("1e3", "printed '1e3', and its output must be"),
        ("\u0663", "its output must be"),
        ("9" * 30, "its output must be"),
        ("out 0 1", "printed 'out 0 1', and the stage reads in"),
        ("in 2 1", "printed 'in 2 1', and in has 2 partitions"),
        ("in 0 8", "printed 'in 0 8', and this partition ends at offset 7"),
        (
            "in 0 1\nin 0 2",
            "printed 'in 0 2', after another line for this partition: print its last position only",
        ),
        ("13", "`./positions` printed 13, and it has 12 inputs: each input must be counted once"),
        ("Traceback (most recent call last)\n\x1b[31mboom", "printed 'Traceback (most recent call last)'"),
    ],
)
def test_output_of_another_form_is_not_known_and_named_in_one_sentence(text: str, why: str) -> None:
    ends = markers(text)
    assert ends.inputs_left(STAGE) is None
    assert why in ends.last_seen(STAGE) and "`./positions` printed" in ends.last_seen(STAGE)
    assert "\n" not in ends.last_seen(STAGE)
    assert why in ends.progress["s"].not_known


def quiesced(tmp_path: Path, *texts: str | ProgressNotKnown) -> FakeRun:
    with fake_run(
        tmp_path, RUNS_FOREVER, FakeCluster(ends={**ENDS, ("out", 0): (0, 0, 0)}), pipeline=PIPELINE
    ) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        ends = OffsetEndMarkers(run.cluster, Printed(*texts), {"s": "`./positions`"})
        quiesce(PIPELINE, run.context, ends, run.run_log, SOON)
    return run


@pytest.mark.processes
def test_the_drain_waits_until_the_printed_positions_reach_the_ends(tmp_path: Path) -> None:
    run = quiesced(
        tmp_path, "", "in 0 3", ProgressNotKnown("the worker is starting"), "in 0 7", "in 0 7\nin 1 5"
    )
    assert [problem.code for problem in run.run_log.evidence_problems if "drain" in problem.code] == []
    assert run.run_log.stage_progress["s"].positions == (("in", 0, 7), ("in", 1, 5))


@pytest.mark.processes
def test_a_stuck_stage_is_named_with_its_positions(tmp_path: Path) -> None:
    run = quiesced(tmp_path, "in 0 7\nin 1 2")
    drain, left = [
        each for each in run.run_log.evidence_problems if each.code in ("not-drained", "inputs-left")
    ]
    assert drain.subject == left.subject == "s"
    assert "s to process all of in, without any progress" in drain.text
    assert "3 inputs left; in/1 is processed to offset 2 of 5" in drain.text
    assert left.text.endswith("3 inputs in in are not processed: in/1 is processed to offset 2 of 5")
    assert "[stage.progress]" in drain.remedy and "--rate" not in drain.remedy
    assert run.run_log.stage_progress["s"].left == 3


@pytest.mark.processes
def test_a_command_that_fails_makes_the_run_unknown_and_is_named(tmp_path: Path) -> None:
    run = quiesced(
        tmp_path, ProgressNotKnown("`./positions` ended with status 1; its last output: no route to host")
    )
    drain = next(each for each in run.run_log.evidence_problems if each.code == "not-drained")
    assert "an unknown number of inputs left; `./positions` ended with status 1" in drain.text
    assert "no route to host" in run.run_log.stage_progress["s"].not_known


@pytest.mark.processes
def test_after_the_instances_have_ended_the_last_positions_count(tmp_path: Path) -> None:
    gone = ProgressNotKnown("`curl` ended with status 7")  # it asked an instance, which has ended
    run = quiesced(tmp_path, "in 0 7\nin 1 5", gone)
    assert [each for each in run.run_log.evidence_problems if each.subject == "s"] == []
    assert run.run_log.stage_progress["s"] == StageProgress((("in", 0, 7), ("in", 1, 5)), left=0)


def ask(folder: Path, script: str, within_s: float = 20.0, env: dict[str, str] | None = None) -> str:
    command = ProgressCommand(
        "`./positions`",
        lambda bootstrap: CommandLine(["sh", "-c", script, bootstrap], env=env or {}),
        within_s,
    )
    with Supervisor() as supervisor:
        return ProgressCommands({"s": command}, supervisor, "broker:9092", folder)(STAGE)


@pytest.mark.processes
def test_a_command_gets_the_brokers_and_only_its_output_is_read(tmp_path: Path) -> None:
    assert ask(tmp_path, "echo a warning >&2; echo in 0 3; echo $0 >&2") == "in 0 3\n"
    assert (tmp_path / "s.progress.err").read_text() == "a warning\nbroker:9092\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "within_s", "why"),
    [
        (
            "echo in 0 1; echo no route to host >&2; exit 3",
            20,
            "ended with status 3; its last output: no route to host",
        ),
        ("echo in 0 1; exit 3", 20, "ended with status 3; its last output: in 0 1"),
        ("kill -9 $$", 20, "was ended by signal 9; its last output: it printed nothing"),
        (
            "echo waiting for the lock; sleep 600",
            0.5,
            "did not end within 0.5 s; its last output: waiting for the lock",
        ),
    ],
)
def test_a_command_that_fails_or_hangs_is_named_with_its_last_output(
    script: str, within_s: float, why: str, tmp_path: Path
) -> None:
    began_s = time.monotonic()
    with pytest.raises(ProgressNotKnown, match=r"^`\./positions` ") as failed:
        ask(tmp_path, script, within_s)
    assert str(failed.value) == f"`./positions` {why}" and time.monotonic() - began_s < 20


def query(folder: Path, database: str, sql: str) -> str:
    env = {"FENCEPOST_DATABASE": database, "FENCEPOST_SQL": sql}
    return ask(folder, f"exec {sys.executable} -P -m harness.databases.query 5", env=env)


@pytest.mark.processes
def test_a_query_prints_a_line_for_each_row(tmp_path: Path) -> None:
    database = tmp_path / "app.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE positions (topic, part, next)")
        connection.execute("INSERT INTO positions VALUES ('in', 0, 3), ('in', 1, NULL)")
    assert query(tmp_path, str(database), "SELECT * FROM positions WHERE next > 0") == "in 0 3\n"
    assert query(tmp_path, str(database), "SELECT 8") == "8\n"
    printed = query(tmp_path, str(database), "SELECT * FROM positions")
    with pytest.raises(ProgressNotKnown, match="printed 'in 1 NULL', and its output must be"):
        read_progress(printed, STAGE, ENDS, "the query")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("database", "sql", "why"),
    [
        ("app.db", "SELECT 1", "unable to open database file"),
        ("made.db", "SELECT next FROM posit", "no such table: posit"),
        ("made.db", "DELETE FROM positions", "attempt to write a readonly database"),
    ],
)
def test_a_query_that_fails_is_named_and_changes_nothing(
    database: str, sql: str, why: str, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "made.db") as connection:
        connection.execute("CREATE TABLE positions (next)")
    with pytest.raises(
        ProgressNotKnown, match=f"ended with status 1; its last output: OperationalError: {why}"
    ):
        query(tmp_path, str(tmp_path / database), sql)
    assert not (tmp_path / "app.db").exists()


def test_the_ends_that_the_cluster_does_not_name_leave_the_progress_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = markers("in 0 7")

    def time_out(topics: object) -> dict[TopicPartition, tuple[int, int, int]]:
        raise WaitTimeout("the end offsets of in", 1.0, "in/0 has no leader")

    monkeypatch.setattr(FakeCluster, "log_offsets", lambda self, topics: time_out(topics))
    assert ends.inputs_left(STAGE) is None and "in/0 has no leader" in ends.last_seen(STAGE)
