"""Which runs a path stands for."""

from pathlib import Path

import pytest

from fencepost.checks.run_folders import find_histories, find_run
from harness.common.errors import UnreadableInput
from harness.history_files.schema import TABLES

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


def test_a_store_is_all_its_runs_newest_last(store):
    assert [given.history for given in find_histories("store")] == [
        "store/b/20260101T000001Z",
        "store/a/20260101T000002Z",
        "store/a/20260101T000003Z",
    ]


def test_a_name_is_its_runs(store):
    assert len(find_histories("store/a")) == 2


def test_a_run_is_named_as_it_was_given(store):
    assert [given.history for given in find_histories("./store/latest/")] == ["./store/latest/"]
    assert find_run("./store/latest/") == Path("store/latest")


@pytest.mark.parametrize(
    ("path", "words"), [("absent", "there is no absent"), ("store/stray", "is neither a stored run")]
)
def test_what_is_no_store_has_an_error(store, path, words):
    [given] = find_histories(path)
    assert words in given.error
    with pytest.raises(UnreadableInput, match=words):
        find_run(path)


def test_a_file_is_a_history_from_elsewhere(store):
    (store / "history.edn").write_text(EVENT)
    (given,) = find_histories("store/history.edn")
    assert given.file is not None and given.error is None


def test_a_folder_of_tables_is_one_too(store):
    for name in TABLES:
        (store / "stray" / f"{name}.parquet").touch()
    (given,) = find_histories("store/stray")
    assert given.file == Path("store/stray")


def test_a_folder_that_lacks_a_table_has_an_error(store):
    (store / "stray" / "micro.parquet").touch()
    (given,) = find_histories("store/stray")
    assert given.file is None
    assert given.error == "store/stray is not a folder of tables: ops.parquet, names.parquet are missing"


@pytest.mark.parametrize("path", ["store/history.edn", "store/stray", "s3a://bucket/night"])
def test_none_of_them_is_a_run(store, path):
    (store / "history.edn").write_text(EVENT)
    for name in TABLES:
        (store / "stray" / f"{name}.parquet").touch()
    with pytest.raises(UnreadableInput, match="this command needs a stored run"):
        find_run(path)


def test_one_run_of_several_must_be_named(store):
    with pytest.raises(UnreadableInput, match="contains several runs: name one of them"):
        find_run("store")


def test_a_suites_folder_is_all_its_runs(tmp_path):
    run = tmp_path / "runs" / "001-shop" / "20261124T200000Z"
    run.mkdir(parents=True)
    (run / "run.toml").touch()
    (tmp_path / "suite.json").touch()
    (tmp_path / "logs").mkdir()
    assert [one.folder for one in find_histories(str(tmp_path))] == [run]
