"""From options and a user's file to a plan; what only a workload of ours can have is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.runs import planning
from harness.common.errors import UsageError
from harness.model.promises import OFFSETS
from harness.processes.encoding import decode
from harness.processes.specs import CustomPipelineSpec, FeederSpec, ObserverSpec, RunSpec
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from tests.support.specs import process_spec, worker_spec
from tests.support.user_pipeline import EXPECTING, FUNCTIONS, described
from workloads.custom.command import ExternalProgram
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS

OPTIONS = Options(seed=1, time_limit_s=300)
GROUPED = EXPECTING.replace('["true"]', '["true"]\ngroup = "g"\ntransactional_id = "b-{instance}"')


def pipeline(folder: Path, text: str = GROUPED, functions: str = FUNCTIONS) -> CustomPipeline:
    return CustomPipeline(described(folder, text, functions))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"defect": "late-commit"},
            "defect applies only to workloads of Fencepost: leave it out of a run with --pipeline",
        ),
        ({"churn_s": 5.0}, "churn applies only to workloads of Fencepost"),
        ({"overrun_share": 0.1}, "overrun-share applies only to workloads of Fencepost"),
        ({"workers": 7}, "workers applies only to workloads of Fencepost: set `instances` in the file"),
        ({"client": "java"}, "client applies only to workloads of Fencepost: leave it out"),
        ({"group_protocol": "consumer"}, "group-protocol applies only to workloads of Fencepost"),
        ({"txn_timeout_s": 7.0}, "txn-timeout applies only to workloads of Fencepost"),
        (
            {"cluster": "external", "bootstrap": "kafka:9092"},
            r"\[\[stage\]\] bill has fixed names, .* write {topic:purchases} in its command",
        ),
    ],
)
def test_what_only_ours_can_have_is_refused(asked: dict[str, Any], words: str, tmp_path: Path) -> None:
    users = pipeline(tmp_path)
    assert planning.pipeline_spec(OPTIONS, users).name == "billing"
    with pytest.raises(UsageError, match=words):
        planning.pipeline_spec(replace(OPTIONS, **asked), users)


def test_its_instances_are_struck_and_no_worker_of_ours(tmp_path: Path) -> None:
    drawn = planning.draw_schedule(OPTIONS, pipeline(tmp_path))
    struck = {one.fault for one in drawn.planned_faults}
    assert {"kill-instance", "pause-instance", "kill-broker"} <= struck
    assert not struck & {"kill-worker", "pause-worker"}
    aimed = planning.draw_schedule(
        replace(OPTIONS, nemesis=("kill-instance@offsets-added",)), pipeline(tmp_path)
    )
    assert {one.state for one in aimed.planned_faults} == {"offsets-added"}
    with pytest.raises(UsageError, match="kill-worker needs a pipeline whose workers report their steps"):
        planning.draw_schedule(replace(OPTIONS, nemesis=("kill-worker",)), pipeline(tmp_path))


def test_of_a_workload_of_ours_no_instance_is_struck() -> None:
    drawn = planning.draw_schedule(OPTIONS, WORKLOADS["shop"])
    names = {"kill-instance", "pause-instance"}
    assert not names & ({one.fault for one in drawn.planned_faults} | drawn.unscheduled.keys())
    with pytest.raises(UsageError, match="kill-instance needs a custom pipeline"):
        planning.draw_schedule(replace(OPTIONS, nemesis=("kill-instance",)), WORKLOADS["shop"])


@pytest.mark.parametrize("fault", ["kill-instance", "pause-instance"])
def test_markers_are_held_back_between_brokers_alone(fault: str, tmp_path: Path) -> None:
    asked = replace(OPTIONS, nemesis=(f"{fault}@prepare-commit",))
    users = pipeline(tmp_path, GROUPED.replace('["true"]', '["true", "{prefix}"]'))
    assert planning.draw_schedule(asked, users).planned_faults
    with pytest.raises(UsageError, match=f"{fault}@prepare-commit needs 2 brokers or more"):
        planning.draw_schedule(replace(asked, brokers=1), users)
    with pytest.raises(UsageError, match=f"{fault}@prepare-commit needs a cluster on which one can"):
        planning.draw_schedule(replace(asked, cluster="external", bootstrap="kafka:9092"), users)


def test_its_workers_are_its_commands_and_all_others_are_ours(tmp_path: Path) -> None:
    users = pipeline(tmp_path)
    test = planning.plan_run(OPTIONS, users, Schedule(()), tmp_path / "run")
    assert test.workers == {"bill": ("bill-1", "bill-2", "bill-3")}
    (stage,) = users.description.stages
    told = {"topic:purchases": "purchases", "topic:invoices": "invoices", "prefix": "", "client_config": ""}
    assert test.programs == {"bill": ExternalProgram(stage, tmp_path, tmp_path / "run", told)}
    command_line = test.harness_program.command_line(process_spec(tmp_path, ObserverSpec(())))
    spec = decode(RunSpec, command_line.argv[-1])
    assert spec.pipeline == CustomPipelineSpec(tmp_path / "pipeline.toml", tag="")
    assert command_line.rules is None and spec.seed == 1
    assert list(spec.partition_counts) == ["purchases", "invoices"]


@pytest.mark.parametrize(
    ("permits", "config"), [(("workers",), "c.properties"), (("workers", "links"), None)]
)
def test_a_guest_is_told_the_tag_and_its_programs_the_properties_that_they_need(
    permits: tuple[str, ...], config: str | None, tmp_path: Path
) -> None:
    text = GROUPED.replace('["true"]', '["true", "{prefix}", "{client_config}"]')
    config_file = str(tmp_path / "c.properties")
    asked = replace(OPTIONS, cluster="external", client_config=config_file, permits=permits)
    test = planning.plan_run(asked, pipeline(tmp_path, text), Schedule(()), tmp_path / "run", tag="run-7")
    command_line = test.harness_program.command_line(process_spec(tmp_path, FeederSpec(1.0)))
    assert decode(RunSpec, command_line.argv[-1]).pipeline.tag == "run-7"
    (command,) = test.programs.values()
    told = command.command_line(process_spec(tmp_path, worker_spec("bill-1", "bill")))
    assert list(told.argv[1:]) == ["run-7-", str(tmp_path / config) if config else ""]


def test_it_promises_ends_by_offsets_and_no_journal_of_its_workers(tmp_path: Path) -> None:
    for text, within in ((GROUPED, True), (GROUPED.replace('group = "g"', ""), False)):
        test = planning.plan_run(OPTIONS, pipeline(tmp_path, text), Schedule(()), tmp_path / "run")
        promised = planning.promises_of(OPTIONS, test)
        assert (promised.journaled, promised.ends, promised.transactions) == ((), OFFSETS, True)
        assert promised.offsets_within is within


def test_it_is_ready_once_its_commands_are_there_and_its_functions_work(tmp_path: Path) -> None:
    planning.require_ready(pipeline(tmp_path))
    planning.require_ready(WORKLOADS["shop"])
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match=r"the command of stage bill, .*billing, does not exist"):
        planning.require_ready(pipeline(tmp_path, GROUPED.replace('["true"]', '["./billing"]')))
    raising = f"{FUNCTIONS}\ndef outputs(*given):\n    raise KeyError('id')\n"
    with pytest.raises(UsageError, match=r"pipeline\.toml: expect\.py:outputs raised KeyError: 'id'"):
        planning.require_ready(pipeline(tmp_path / "other", functions=raising))
