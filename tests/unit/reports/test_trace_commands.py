"""The trace command of an example. It is empty if the run has none of the parts of the example."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import run_command_line
from harness.results.example import Example
from reports.story.scopes import trace_commands
from tests.support.histories import History
from tests.support.stored_tables import write_store

INPUT = {"topic": "a", "partition": 0, "offset": 1}
OUTPUT = {"topic": "x", "partition": 0, "offset": 1, "value": "w:0:1", "fate": "commit"}
GONE = {"topic": "x", "partition": 0, "offset": 99, "value": "w:0:9", "fate": "commit"}
INTERNAL = {"topic": "__transaction_state", "partition": 0, "offset": 0, "value": None, "fate": "plain"}
OPERATION = {"op": 1, "name": "w:0", "outcome": "ok"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one transaction with three acknowledged records. Readers received two of them."""
    history = History()
    history.feed(2)
    op = history.transact(0, 1, transactional_id="id-1")
    history.send(op, "x", 50, inputs=[1])
    folder = tmp_path_factory.mktemp("a store")
    write_store(folder, [(1, history)], log=True)
    (folder / "run.toml").write_text("[run]\nid = 1\nwall_ms_at_zero = 0\n")
    return folder


def commands_for(folder: Path, examples: list[dict[str, Any]]) -> list[str]:
    return trace_commands(folder, [Example.from_json(example) for example in examples])


@pytest.mark.parametrize(
    ("example", "options"),
    [
        ({"record": OUTPUT, "input": INPUT}, "--record a/0@1"),
        ({"record": OUTPUT, "operation": OPERATION}, "--record x/0@1"),
        ({"record": GONE | {"offset": 50}}, "--record x/0@50"),  # acknowledged, but no reader received it
        ({"record": GONE, "operation": OPERATION}, "--op w:0"),
        ({"input": INPUT | {"offset": -1}, "record": OUTPUT}, "--record x/0@1"),
        ({"input": INPUT | {"topic": "elsewhere"}, "record": OUTPUT}, "--record x/0@1"),
        (
            {"record": INTERNAL, "operation": OPERATION | {"name": "w:7"}, "transactional_id": "id-1"},
            "--id id-1",
        ),
        ({"record": INTERNAL | {"transactional_id": "id-1"}}, "--id id-1"),
        ({"operation": {"op": None, "name": None, "transactional_id": "id-1", "outcome": "ok"}}, "--id id-1"),
        ({"transactional_id": "unknown"}, ""),
        ({"record": GONE}, ""),
        ({"record": OUTPUT | {"partition": None}, "operation": {"op": 1, "name": ["w:0"]}}, ""),
        ({"record": OUTPUT | {"offset": True}, "operation": OPERATION | {"name": "w:0\x1b"}}, ""),
        ({"operation": OPERATION | {"name": "--op"}}, ""),
        ({}, ""),
    ],
)
def test_an_example_is_traced_by_a_part_that_the_run_has(
    example: dict[str, Any], options: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = commands_for(folder, [example])
    assert command == (f"fencepost trace {shlex.quote(str(folder))} {options}" if options else "")
    if command:
        assert run_command_line(shlex.split(command)[1:]) == 0
        assert "w:0" in capsys.readouterr().out


def test_an_acknowledged_record_that_no_reader_received_is_traced_by_its_sender(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["trace", str(folder), "--record", "x/0@50"]) == 0
    assert "w:0 has acknowledgements of x/0 @ 0 to 1, 50" in capsys.readouterr().out


def test_each_example_has_its_own_command(folder: Path) -> None:
    commands = commands_for(folder, [{"transactional_id": "unknown"}, {"record": OUTPUT}, {"input": INPUT}])
    assert [command.rpartition(" ")[2] for command in commands] == ["", "x/0@1", "a/0@1"]


def test_the_command_names_the_run_and_not_a_link_to_the_latest_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = tmp_path / "latest"
    latest.symlink_to(folder)
    expected = f"fencepost trace {shlex.quote(str(folder.resolve()))} --op w:0"
    assert commands_for(latest, [{"operation": OPERATION}]) == [expected]
    monkeypatch.chdir(folder)
    assert commands_for(Path(), [{"operation": OPERATION}]) == [expected]
    (tmp_path / "-rf").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    assert commands_for(Path("-rf"), [{"operation": OPERATION}]) == [expected]


def test_without_readable_tables_there_is_no_command(tmp_path: Path) -> None:
    assert commands_for(tmp_path, [{"operation": OPERATION}, {}]) == ["", ""]
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "ops.parquet").write_bytes(b"PAR1")
    assert commands_for(tmp_path, [{"operation": OPERATION}, {}]) == ["", ""]
