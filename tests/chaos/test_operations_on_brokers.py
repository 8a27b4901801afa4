"""Operations on brokers and partitions as faults, on real clusters (`make chaos`)."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fencepost
from fencepost.api import Result
from harness.environment.kafka import versions

OLDEST, *_ = reversed(versions())
MOVES = """
[[schedule]]
fault = "move-leader"
start_s = 4
target = "leader:invoices/0"

[[schedule]]
fault = "move-leader@txn-coordinator"
start_s = 14

[[schedule]]
fault = "move-leader@group-coordinator"
start_s = 24

[[schedule]]
fault = "reassign-partitions"
start_s = 34
target = "topic:invoices"

[[schedule]]
fault = "reassign-partitions"
start_s = 50
target = "topic:__transaction_state"

[[schedule]]
fault = "roll-segments"
start_s = 66
target = "topic:invoices"

[[schedule]]
fault = "roll-segments"
start_s = 78
target = "topic:__consumer_offsets"
"""


def acted(result: Result) -> list[Any]:
    """Return the reports of the faults, after asserting that each acted and was healed and the run is valid."""
    assert result.valid is True, result.explain()
    assert all(fault["acted"] and fault["end_s"] for fault in result.faults), result.explain()
    return result.faults


@pytest.mark.parametrize("brokers", [3, 5])
def test_partitions_move_and_their_segments_roll_under_a_correct_pipeline(
    brokers: int, tmp_path: Path
) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(MOVES)
    result = fencepost.run(schedule=file, brokers=brokers, time_limit=95, seed=3, store=str(tmp_path))
    *moves, invoices, states, rolled, offsets = acted(result)
    assert [report["details"]["role"] for report in moves] == [
        "leader",
        "txn-coordinator",
        "group-coordinator",
    ]
    assert all("took over its role" in move["evidence"] for move in moves)
    assert all("no broker ended" in move["evidence"] for move in moves)
    for report in (invoices, states):
        assert "6 partitions of" in report["evidence"] and "back on the first replicas" in report["evidence"]
        now, before = re.findall(r"replicas ([\d, ]+), before: ([\d, ]+);", report["evidence"])[0]
        assert now.split(", ")[0] != before.split(", ")[0]
        assert len(now.split(", ")) == (3 if brokers > 3 else 2)
    for report in (rolled, offsets):
        first, last = map(
            int, re.findall(r"had (\d+) segment files of .*, and then (\d+);", report["evidence"])[0]
        )
        assert last > first


GROWTH = """
[[schedule]]
fault = "add-partitions@invoices"
start_s = 5
more = 2

[[schedule]]
fault = "add-partitions"
start_s = 18
target = "topic:invoices"
more = 1
"""


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_topic_gets_partitions_twice_and_each_fault_proves_it(client: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(GROWTH)
    result = fencepost.run(schedule=file, client=client, time_limit=32, seed=3, store=str(tmp_path))
    assert all(fault["acted"] for fault in result.faults), result.explain()
    counts = [
        (fault["details"]["partitions_before"], fault["details"]["partitions_after"])
        for fault in result.faults
    ]
    assert counts == [("6", "8"), ("8", "9")]
    assert "invoices had 6 partitions, and has 8 since" in result.faults[0]["evidence"]


def test_every_broker_is_restarted_in_turn(tmp_path: Path) -> None:
    result = fencepost.run(nemesis="rolling-restart", time_limit=60, seed=4, store=str(tmp_path))
    (report,) = acted(result)
    pids = re.findall(r"process (\d+)", report["evidence"])
    assert len(set(pids)) == 6 and report["evidence"].count("ended with status 143 after SIGTERM") == 3


def version_changes(result: Result) -> list[Any]:
    """Return the reports of the changes of the transaction version, after asserting that each acted."""
    changes = [report for report in result.faults if report["fault"] == "change-transaction-version"]
    assert all(report["acted"] and report["end_s"] for report in changes), result.explain()
    assert all("say that transaction.version is" in report["evidence"] for report in changes)
    return changes


def client_versions(result: Result) -> set[int]:
    """Return the versions of transactions that the clients used, according to the transaction log."""
    states = pq.read_table(result.folder / "log" / "transactions.parquet", columns=["client_version"])
    return set(states["client_version"].to_pylist())


def test_the_transaction_version_is_raised_while_transactions_go_on(tmp_path: Path) -> None:
    # A client that stays connected does not learn that it may use version 2. So one worker starts meanwhile.
    result = fencepost.run(
        nemesis="change-transaction-version+kill-worker", transaction_version=1, client="java", time_limit=60,
        seed=5, store=str(tmp_path),
    )  # fmt: skip
    acted(result)
    assert version_changes(result) and {0, 2} <= client_versions(result)


def lowered(folder: Path, level: int) -> Result:
    """Run with a change of the transaction version from 2 to `level`, and back after 12 s."""
    file = folder / "faults.toml"
    file.write_text(
        '[[schedule]]\nfault = "change-transaction-version"\nstart_s = 8\n'
        f'target = "feature:transaction.version={level}"\n'
    )
    return fencepost.run(schedule=file, client="java", time_limit=30, seed=5, store=str(folder))


def test_the_transaction_version_is_lowered_while_transactions_go_on(tmp_path: Path) -> None:
    # EndTxn of version 2 is refused on version 1, and each worker goes on with a new producer.
    result = lowered(tmp_path, 1)
    acted(result)
    assert version_changes(result) and {0, 2} <= client_versions(result)


def test_kafka_neither_completes_nor_aborts_transactions_whose_version_is_lowered_to_0(
    tmp_path: Path,
) -> None:
    # A bug of Kafka (docs/findings.md): the coordinator cannot write the states of transactions of version 2.
    result = lowered(tmp_path, 0)
    assert version_changes(result)
    assert result.valid is False and "hanging-transaction" in result.anomalies, result.explain()
    logs = "".join(path.read_text() for path in result.folder.glob("brokers/*/server.log"))
    assert "Attempted to write a non-default clientTransactionVersion at version 0" in logs


@pytest.mark.parametrize(
    ("kafka", "path"),
    [*zip(versions()[1:], versions(), strict=False)],
)
def test_every_broker_is_upgraded_to_the_next_version(kafka: str, path: str, tmp_path: Path) -> None:
    upgraded(tmp_path, kafka, "rolling-upgrade", [kafka, path], 70)


def test_the_brokers_go_through_all_versions_in_one_run(tmp_path: Path) -> None:
    upgraded(tmp_path, OLDEST, "rolling-upgrade@all", list(reversed(versions())), 240)


def test_the_brokers_go_back_before_the_features_are_finalized(tmp_path: Path) -> None:
    newest, before = versions()[:2]
    report = upgraded(tmp_path, before, "rolling-upgrade@back", [before, newest, before], 100)
    assert "finalized" not in report["evidence"]


def upgraded(folder: Path, kafka: str, nemesis: str, path: list[str], time_limit: float) -> Any:
    """Start a run, and return the report of its upgrade after asserting that each broker logged each version."""
    result = fencepost.run(nemesis=nemesis, kafka=kafka, time_limit=time_limit, seed=6, store=str(folder))
    report = acted(result)[0]
    assert report["details"]["versions"] == ", ".join(path)
    for version in path[1:]:
        assert report["evidence"].count(f"of Kafka {version}, which supports metadata.version") == 3
    logs = [(result.folder / "brokers" / str(broker) / "server.log").read_text() for broker in (1, 2, 3)]
    assert all(re.findall(r"Kafka version: (\S+)", log)[-1] == path[-1] for log in logs)
    assert json.loads((result.folder / "metadata.json").read_text())["versions"]["kafka"] == kafka
    return report
