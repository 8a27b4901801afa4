"""A correct pipeline is valid in every kind of consumer group, while its workers are killed and paused."""

from pathlib import Path

import pytest

import fencepost
from harness.environment.versions import CLIENTS

GROUPS = ({"assignor": "eager"}, {"assignor": "cooperative"}, {"group_protocol": "consumer"})
FAULTS = (["kill-worker", "pause-worker"], None)


@pytest.mark.parametrize("nemesis", FAULTS, ids=["workers", "drawn"])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: next(iter(group.values())))
@pytest.mark.parametrize("client", CLIENTS)
def test_a_correct_pipeline_is_valid_in_every_kind_of_group(
    client: str, group: dict[str, str], static: bool, nemesis: list[str] | None, tmp_path: Path
) -> None:
    result = fencepost.run(
        client=client,
        static_membership=static,
        nemesis=nemesis,
        time_limit=30,
        seed=1,
        store=str(tmp_path),
        **group,
    )
    assert result.valid is True, result.explain()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: next(iter(group.values())))
@pytest.mark.parametrize("client", CLIENTS)
def test_the_workers_use_the_chosen_group_protocol(
    client: str, group: dict[str, str], tmp_path: Path
) -> None:
    rule = fencepost.rule("Produce", "delay", delay_s=0.001)  # so that the proxy is on the links
    result = fencepost.run(client=client, rule=rule, time_limit=5, seed=1, store=str(tmp_path), **group)
    assert result.valid is True, result.explain()
    used = {"ConsumerGroupHeartbeat", "JoinGroup"} & result.verdict["requests"].keys()
    assert used == {"ConsumerGroupHeartbeat" if "group_protocol" in group else "JoinGroup"}
