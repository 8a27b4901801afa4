"""Every pinned version of a client in a run, and the call of librdkafka that never returns."""

import json

import pytest

import fencepost
from fencepost.api import Result
from harness.environment.versions import ClientVersion, client_versions

VERSIONS = client_versions()
HANGING = "librdkafka:2.16.1"


def first_lines(result: Result, role: str) -> list[dict[str, object]]:
    """Return the first lines of the journals of a role."""
    lines_of_journals = []
    for path in (result.folder / "journals").glob("*.jsonl"):
        with path.open() as lines:
            lines_of_journals.append(json.loads(lines.readline()))
    return [line for line in lines_of_journals if line["role"] == role]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_correct_pipeline_is_valid_on_every_version_of_a_client(
    version: ClientVersion, runs_folder: object
) -> None:
    result = fencepost.run(
        client=version.name,
        nemesis="kill-worker",
        time_limit=15,
        rate=60,
        seed=1,
        store=f"{runs_folder}/{version.client}",
    )
    assert result.valid is True, result.explain()
    workers = first_lines(result, "worker")
    clients = {(line["client"], line["client_version"], line.get("library_version")) for line in workers}
    assert clients == {(version.client, version.version, version.library)}
    if version.client == "librdkafka":
        assert {line["client_version"] for line in first_lines(result, "feeder")} == {version.version}
    versions = json.loads((result.folder / "metadata.json").read_text())["versions"]
    assert version.version in versions["workers' client"]
    assert version.version in versions["client"]  # the name that the client sends to the brokers


@pytest.mark.parametrize("seed", [1, 5, 6])
def test_a_call_that_never_returns_is_reported_as_stalled(seed: int, runs_folder: object) -> None:
    """librdkafka #5511: the call may return after another broker starts or stops. The run always ends."""
    result = fencepost.run(
        client=HANGING,
        nemesis="kill-group-coordinator",
        time_limit=25,
        rate=60,
        seed=seed,
        store=f"{runs_folder}/hanging",
    )
    assert result.exit_status in (0, 3), result.explain()
    reasons = [*result.verdict["unknown_because"], *result.verdict["warnings"]]
    stalls = [reason for reason in reasons if reason["code"] == "stalled"]
    stall_events = [
        json.loads(line)
        for path in (result.folder / "journals").glob("*.jsonl")
        for line in path.read_text().splitlines()
        if '"waits"' in line
    ]
    assert len(stalls) == len(stall_events)  # each event in a journal leads to a reason
    assert stalls or result.valid, result.explain()
    for stall in stalls:
        assert "send_offsets_to_transaction" in stall["text"] and "coordinator" in stall["text"]


def test_the_version_before_the_bug_does_not_stall(runs_folder: object) -> None:
    result = fencepost.run(
        client="librdkafka:2.9.0",
        nemesis="kill-group-coordinator",
        time_limit=25,
        rate=60,
        seed=5,
        store=f"{runs_folder}/before",
    )
    assert result.valid is True, result.explain()
    assert [warning for warning in result.verdict["warnings"] if warning["code"] == "stalled"] == []
