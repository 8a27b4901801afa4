"""Find the runs and external histories of a path."""

from pathlib import Path

import pytest

from fencepost.checks.run_folders import find_histories, find_run
from harness.common.errors import UnreadableInput
from harness.record.history_form import TABLES

EVENT = "{:process 0, :type :invoke, :f :txn, :value []}\n"


@pytest.fixture
def store(tmp_path: Path, monkeypatch) -> Path:
    for run in ("a/20260101T000002Z", "b/20260101T000001Z", "a/20260101T000003Z"):
        (tmp_path / "store" / run).mkdir(parents=True)
        (tmp_path / "store" / run / "run.toml").touch()
    (tmp_path / "store" / "latest").symlink_to("a/20260101T000003Z")
    (tmp_path / "store" / "stray").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def test_a_store_contains_all_its_runs_the_newest_last(store):
    assert [found.history for found in find_histories("store")] == [
        "store/b/20260101T000001Z",
        "store/a/20260101T000002Z",
        "store/a/20260101T000003Z",
    ]


def test_a_folder_of_one_name_contains_its_runs(store):
    assert len(find_histories("store/a")) == 2


def test_a_run_has_the_path_that_the_user_wrote(store):
    assert [found.history for found in find_histories("./store/latest/")] == ["./store/latest/"]
    assert find_run("./store/latest/") == Path("store/latest")


@pytest.mark.parametrize(
    ("path", "message"), [("absent", "there is no absent"), ("store/stray", "is neither a stored run")]
)
def test_a_path_without_runs_has_an_error(store, path, message):
    [history] = find_histories(path)
    assert message in history.error
    with pytest.raises(UnreadableInput, match=message):
        find_run(path)


def test_a_file_is_an_external_history(store):
    (store / "history.edn").write_text(EVENT)
    (history,) = find_histories("store/history.edn")
    assert history.file is not None and history.error is None


def test_a_folder_of_tables_is_an_external_history(store):
    for name in TABLES:
        (store / "stray" / f"{name}.parquet").touch()
    (history,) = find_histories("store/stray")
    assert history.file == Path("store/stray")


def test_a_folder_that_lacks_a_table_has_an_error(store):
    (store / "stray" / "micro.parquet").touch()
    (history,) = find_histories("store/stray")
    assert history.file is None
    assert history.error == "store/stray is not a folder of tables: ops.parquet, names.parquet are missing"


@pytest.mark.parametrize("path", ["store/history.edn", "store/stray", "s3a://bucket/night"])
def test_an_external_history_is_not_a_run(store, path):
    (store / "history.edn").write_text(EVENT)
    for name in TABLES:
        (store / "stray" / f"{name}.parquet").touch()
    with pytest.raises(UnreadableInput, match="this command needs a stored run"):
        find_run(path)


def test_a_path_with_several_runs_is_not_a_run(store):
    with pytest.raises(UnreadableInput, match="is a folder of runs, not a run: name a run in it"):
        find_run("store")


def test_the_folder_of_a_suite_contains_its_runs(tmp_path):
    run = tmp_path / "runs" / "001-shop" / "20261124T200000Z"
    run.mkdir(parents=True)
    (run / "run.toml").touch()
    (tmp_path / "suite.json").touch()
    (tmp_path / "logs").mkdir()
    assert [history.folder for history in find_histories(str(tmp_path))] == [run]
