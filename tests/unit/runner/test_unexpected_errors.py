"""Unexpected errors are read from the journals and stored in the run metadata."""

from pathlib import Path

from harness.model.vocabulary import Outcome
from harness.record.events import Completed, Invoked, JournalBegan
from harness.record.journal import Journal
from harness.results.run_metadata import RunMetadata
from harness.witness.tabulate import unexpected_errors


def test_an_unexpected_error_is_reported_with_its_operation(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    with Journal(
        tmp_path / "journals" / "shop-1.0.jsonl", 0, JournalBegan("shop-1.0", role="worker")
    ) as journal:
        for surprise in (False, True):
            op = journal.number()
            journal.write(Invoked("txn", 1, op, asked="commit"))
            journal.write(Completed(Outcome.INFO, "txn", 1, op, error="KeyError(3)", surprise=surprise))
    with (tmp_path / "journals" / "shop-1.0.jsonl").open("a") as file:
        file.write('{"surprise":true}\n{"surprise":true\n')  # lines that no process writes are ignored
    (reason,) = unexpected_errors(tmp_path)
    assert (reason.code, reason.subject) == ("unexpected-error", "shop-1.0:1")
    assert "KeyError(3)" in reason.text
    RunMetadata(unexpected_errors=[reason]).save(tmp_path / "metadata.json")
    assert RunMetadata.load(tmp_path / "metadata.json").unexpected_errors == [reason]
