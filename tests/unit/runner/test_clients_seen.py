"""The version that was run stands in the journals; another than was asked for makes the run no evidence."""

from pathlib import Path

import pytest

from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.runner.clients_seen import record_clients
from harness.settings.client_choice import ClientChoice
from tests.support.fake_run import FakeRun, fake_run

NEW = {"client": "librdkafka", "client_version": "2.16.1", "library_version": "2.16.0"}
OLD = {"client": "librdkafka", "client_version": "2.9.0", "library_version": "2.8.0"}


def noted(run: FakeRun, asked: str, **journals: dict[str, str]) -> list[tuple[str, str]]:
    for name, client in journals.items():
        role = "worker" if name.startswith("w") else "feeder"
        with Journal(run.folder / "journals" / f"{name}.jsonl", 0, JournalBegan(name, role=role, **client)):
            pass
    record_clients(run.folder, ClientChoice.of(asked), run.run_log)
    return [(one.code, one.subject) for one in run.run_log.evidence_problems]


def test_what_the_workers_ran_is_among_the_versions(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert noted(run, "librdkafka:2.16.1", w1=NEW, w2=NEW, feeder=OLD) == []
        versions = run.run_log.to_metadata(False, {}, {"kafka": "4.3.1"}).versions
        assert versions == {"kafka": "4.3.1", "workers' client": "confluent-kafka 2.16.1 (librdkafka 2.16.0)"}


@pytest.mark.parametrize("other", [OLD, {}, {**NEW, "client": "java"}], ids=["older", "silent", "another"])
def test_a_worker_that_ran_another_is_named(tmp_path: Path, other: dict[str, str]) -> None:
    with fake_run(tmp_path) as run:
        assert noted(run, "librdkafka:2.16.1", w1=NEW, w2=other) == [("other-client", "w2")]


def test_where_no_version_was_asked_for_any_will_do(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert noted(run, "librdkafka", w1=OLD, w2={}) == []


def test_a_journal_whose_first_line_is_torn_is_nobodys(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        (run.folder / "journals" / "w1.jsonl").write_text('{"index":0,"ty')
        assert noted(run, "librdkafka:2.16.1", w2=NEW) == []
