"""Instances of a user's program are killed: once they are ready, with all that they have started."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.fake import FakeCluster
from harness.programs import Manners
from harness.runner.faults import (
    Injection,
    Target,
)
from nemeses import instances
from nemeses.in_transaction import GOAL as STATE
from nemeses.registry import NEMESES
from tests.support.fake_run import USERS, Plain, fake_run
from tests.support.instances import STAYS, journals, running, struck

pytestmark = pytest.mark.usefixtures("soon")


def test_one_is_killed_with_all_that_it_has_started_and_started_again(tmp_path: Path) -> None:
    launcher = Plain("echo up; sleep 600; true", Manners("up"))
    with running(tmp_path, FakeCluster(), launcher) as (run, member):
        effect = struck(run, "kill-instance")
        assert effect.acted and effect.lacking == {} and effect.struck_ns is not None
        assert member.child.ending().endswith("ended by SIGKILL") and member.child.ending() in effect.proof
        assert journals(run) == ["s-1.0", "s-1.1"] and run.processes.members[1].alive
        assert effect.target == "instance s-1.0"


def test_one_is_killed_once_it_is_ready_and_its_stage_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)  # its start is part of it
    highs = [5, 5, 6]
    late = Plain("sleep 0.3; echo up; exec sleep 600", Manners("up"))
    with fake_run(tmp_path, late, pipeline=USERS) as run:
        member = run.processes.start_worker("s", "s-1")

        def last_stable(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            assert member.heard.ready and member.alive
            return {("out", 0): (0, 0, highs.pop(0))}

        monkeypatch.setattr(run.cluster, "last_stable", last_stable)
        assert struck(run, "kill-instance").acted and highs == []


def test_who_took_the_place_of_one_that_ended_before_it_was_struck_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 10.0)
    highs = [5, 5, 6]
    with running(tmp_path, FakeCluster(), STAYS) as (run, member):

        def last_stable(topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int, int]]:
            if len(highs) == 2:
                member.expected_to_end = True
                member.child.kill()
                run.processes.replace(member)
            return {("out", 0): (0, 0, highs.pop(0))}

        monkeypatch.setattr(run.cluster, "last_stable", last_stable)
        effect = struck(run, "kill-instance")
        assert effect.acted and effect.target == "instance s-1.1" and highs == []
        assert journals(run) == ["s-1.0", "s-1.1", "s-1.2"]


def test_a_stage_that_may_be_silent_for_long_is_waited_for_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "AT_WORK_TIMEOUT_S", 0.01)
    (users,) = USERS.stages
    alone = replace(USERS, stages=(replace(users, group=None, idle_s=10.0),))
    highs = [5] * 5 + [6]
    with fake_run(tmp_path, STAYS, pipeline=alone) as run:
        run.processes.await_ready([run.processes.start_worker("s", "s-1")])
        monkeypatch.setattr(run.cluster, "last_stable", lambda _: {("out", 0): (0, 0, highs.pop(0))})
        assert struck(run, "kill-instance").acted and highs == []


def test_one_that_ends_meanwhile_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, FakeCluster()) as (run, member):
        monkeypatch.setattr(run.cluster, "transaction", lambda own: member.child.kill() and None)
        injection = Injection("kill-instance", Target("worker", "s/s-1"), 0.0, 0.05, {"state": "ongoing"})
        with NEMESES["kill-instance"].strike(run.context, injection) as effect:
            pass
        assert not effect.acted and "it ended: up" in effect.lacking[STATE]
