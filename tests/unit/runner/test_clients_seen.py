"""The journals have the client versions. A version that the user did not choose is an evidence problem."""

from pathlib import Path

import pytest

from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.runner.run_log import record_clients
from harness.settings.kinds import ClientChoice
from tests.support.fake_run import FakeRun, fake_run

pytestmark = pytest.mark.processes

NEW = {"client": "librdkafka", "client_version": "2.16.1", "library_version": "2.16.0"}
OLD = {"client": "librdkafka", "client_version": "2.9.0", "library_version": "2.8.0"}


def problems_of(run: FakeRun, choice: str, **journals: dict[str, str]) -> list[tuple[str, str]]:
    for name, client in journals.items():
        role = "worker" if name.startswith("w") else "feeder"
        with Journal(run.folder / "journals" / f"{name}.jsonl", 0, JournalBegan(name, role=role, **client)):
            pass
    record_clients(run.folder, ClientChoice.of(choice), run.run_log)
    return [(problem.code, problem.subject) for problem in run.run_log.evidence_problems]


def test_the_client_of_the_workers_is_among_the_versions(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert problems_of(run, "librdkafka:2.16.1", w1=NEW, w2=NEW, feeder=OLD) == []
        versions = run.run_log.to_metadata(False, {}, {"kafka": "4.3.1"}).versions
        assert versions == {"kafka": "4.3.1", "workers' client": "confluent-kafka 2.16.1 (librdkafka 2.16.0)"}


@pytest.mark.parametrize(
    "client", [OLD, {}, {**NEW, "client": "java"}], ids=["older", "unrecorded", "another"]
)
def test_a_worker_with_another_client_is_an_evidence_problem(tmp_path: Path, client: dict[str, str]) -> None:
    with fake_run(tmp_path) as run:
        assert problems_of(run, "librdkafka:2.16.1", w1=NEW, w2=client) == [("other-client", "w2")]


def test_without_a_chosen_version_every_client_is_accepted(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        assert problems_of(run, "librdkafka", w1=OLD, w2={}) == []


def test_a_journal_whose_first_line_is_torn_is_ignored(tmp_path: Path) -> None:
    with fake_run(tmp_path) as run:
        (run.folder / "journals" / "w1.jsonl").write_text('{"index":0,"ty')
        assert problems_of(run, "librdkafka:2.16.1", w2=NEW) == []
