"""Every pinned version of a client, in a run of its own; and the call of librdkafka that never returns."""

import json

import pytest

import fencepost
from fencepost.api import Result
from harness.environment.client_versions import ClientVersion, client_versions

ALL = client_versions()
HANGING = "librdkafka:2.16.1"


def first_lines(result: Result, role: str) -> list[dict[str, object]]:
    """Of the journals of that role."""
    found = []
    for path in (result.folder / "journals").glob("*.jsonl"):
        with path.open() as lines:
            found.append(json.loads(lines.readline()))
    return [line for line in found if line["role"] == role]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_right_pipeline_is_valid_on_every_version_of_a_client(one: ClientVersion, place: object) -> None:
    result = fencepost.run(
        client=one.name, nemesis="kill-worker", time_limit=15, rate=60, seed=1, store=f"{place}/{one.client}"
    )
    assert result.valid is True, result.explain()
    workers = first_lines(result, "worker")
    told = {(line["client"], line["client_version"], line.get("library_version")) for line in workers}
    assert told == {(one.client, one.version, one.library)}
    if one.client == "librdkafka":
        assert {line["client_version"] for line in first_lines(result, "feeder")} == {one.version}
    versions = json.loads((result.folder / "metadata.json").read_text())["versions"]
    assert one.version in versions["workers' client"]
    assert one.version in versions["client"]  # as it names itself to the brokers


@pytest.mark.parametrize("seed", [1, 5, 6])
def test_a_call_that_never_returns_is_told_as_stalled(seed: int, place: object) -> None:
    """librdkafka #5511: whether it comes back depends on what else happens to the brokers; the run always ends."""
    result = fencepost.run(
        client=HANGING,
        nemesis="kill-group-coordinator",
        time_limit=25,
        rate=60,
        seed=seed,
        store=f"{place}/hanging",
    )
    assert result.exit_status in (0, 3), result.explain()
    reasons = [*result.verdict["unknown_because"], *result.verdict["warnings"]]
    stalls = [one for one in reasons if one["code"] == "stalled"]
    notes = [
        json.loads(line)
        for path in (result.folder / "journals").glob("*.jsonl")
        for line in path.read_text().splitlines()
        if '"waits"' in line
    ]
    assert len(stalls) == len(notes)  # what a worker noted is told
    assert stalls or result.valid, result.explain()
    for one in stalls:
        assert "send_offsets_to_transaction" in one["text"] and "coordinator" in one["text"]


def test_the_version_before_it_does_not_stall(place: object) -> None:
    result = fencepost.run(
        client="librdkafka:2.9.0",
        nemesis="kill-group-coordinator",
        time_limit=25,
        rate=60,
        seed=5,
        store=f"{place}/before",
    )
    assert result.valid is True, result.explain()
    assert [one for one in result.verdict["warnings"] if one["code"] == "stalled"] == []
