"""From options and a custom pipeline to a run plan."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.runs import planning
from harness.common.errors import UsageError
from harness.environment.kafka import KafkaDistribution
from harness.model.promises import OFFSETS
from harness.processes.messages import decode
from harness.processes.specs import CustomPipelineSpec, FeederSpec, ObserverSpec, RunSpec
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from nemeses.registry import NEMESES
from tests.support.specs import process_spec, worker_spec
from tests.support.user_pipeline import FUNCTIONS, WITH_OUTPUTS, read_pipeline
from workloads.custom.command import ExternalProgram
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS

KILL_S = NEMESES["kill-instance"].duration_s
OPTIONS = Options(seed=1, time_limit_s=300)
GROUPED = WITH_OUTPUTS.replace('["true"]', '["true"]\ngroup = "g"\ntransactional_id = "b-{instance}"')


def pipeline(folder: Path, text: str = GROUPED, functions: str = FUNCTIONS) -> CustomPipeline:
    return CustomPipeline(read_pipeline(folder, text, functions))


@pytest.mark.parametrize(
    ("changes", "message"),
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
def test_an_option_that_applies_only_to_workloads_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    custom_pipeline = pipeline(tmp_path)
    assert planning.pipeline_spec(OPTIONS, custom_pipeline).name == "billing"
    with pytest.raises(UsageError, match=message):
        planning.pipeline_spec(replace(OPTIONS, **changes), custom_pipeline)


def test_its_instances_are_targets_of_faults_and_workers_are_not(tmp_path: Path) -> None:
    schedule = planning.draw_schedule(OPTIONS, pipeline(tmp_path))
    planned_names = {planned.fault for planned in schedule.planned_faults}
    assert {"kill-instance", "pause-instance", "kill-broker"} <= planned_names
    assert not planned_names & {"kill-worker", "pause-worker"}
    aimed_schedule = planning.draw_schedule(
        replace(OPTIONS, nemesis=("kill-instance@offsets-added",)), pipeline(tmp_path)
    )
    assert {planned.state for planned in aimed_schedule.planned_faults} == {"offsets-added"}
    with pytest.raises(UsageError, match="kill-worker needs a pipeline whose workers report their steps"):
        planning.draw_schedule(replace(OPTIONS, nemesis=("kill-worker",)), pipeline(tmp_path))


SLOW = GROUPED.replace("group =", "works_within_s = 60\ngroup =")


def test_a_schedule_reserves_the_time_in_which_a_stage_works_again(tmp_path: Path) -> None:
    options = replace(OPTIONS, nemesis=("kill-instance",), time_limit_s=290)
    at_s = [
        fault.start_s for fault in planning.draw_schedule(options, pipeline(tmp_path, SLOW)).planned_faults
    ]
    assert len(at_s) == 4
    assert all(later >= earlier + 60 + KILL_S for earlier, later in pairwise([*at_s, 290.0]))
    quick = planning.draw_schedule(options, pipeline(tmp_path)).planned_faults
    assert len(quick) > 20  # without the key, nothing is reserved


def test_a_schedule_without_room_for_a_slow_stage_names_the_least_time_limit(tmp_path: Path) -> None:
    options = replace(OPTIONS, nemesis=("kill-instance",), time_limit_s=60)
    with pytest.raises(UsageError, match="no room for kill-instance in 60 s: choose --time-limit 73 or more"):
        planning.draw_schedule(options, pipeline(tmp_path, SLOW))
    enough = replace(options, time_limit_s=73)
    assert len(planning.draw_schedule(enough, pipeline(tmp_path, SLOW)).planned_faults) == 1
    drawn = planning.draw_schedule(replace(options, nemesis=None), pipeline(tmp_path, SLOW))
    assert "did not fit into 60 s" in drawn.left_out["kill-instance"]
    assert drawn.planned_faults  # faults on brokers need no more time than before


def test_the_least_time_limit_suffices_for_whichever_stage_is_drawn(tmp_path: Path) -> None:
    more = SLOW.replace("[inputs", '[[stage]]\nname = "quick"\nreads = ["invoices"]\nwrites = ["paid"]\n'
                        'command = ["true"]\n[inputs', 1)  # fmt: skip
    options = replace(OPTIONS, nemesis=("kill-instance", "restart-instance"))
    with pytest.raises(UsageError, match=r"--time-limit (\d+)") as refused:
        planning.draw_schedule(replace(options, time_limit_s=12), pipeline(tmp_path, more))
    least_s = float(str(refused.value).split("--time-limit ")[1].split()[0])
    for seed in range(30):
        drawn = planning.draw_schedule(
            replace(options, seed=seed, time_limit_s=least_s), pipeline(tmp_path, more)
        )
        assert {"kill-instance", "restart-instance"} == {fault.fault for fault in drawn.planned_faults}


def test_a_job_that_seldom_starts_gets_the_time_until_its_next_start(tmp_path: Path) -> None:
    job = GROUPED.replace("group =", 'kind = "job"\nevery_s = 60\ngroup =')
    options = replace(OPTIONS, nemesis=("kill-instance",), time_limit_s=60)
    with pytest.raises(UsageError, match="choose --time-limit 73 or more"):
        planning.draw_schedule(options, pipeline(tmp_path, job))


def test_instance_faults_are_not_planned_for_a_workload() -> None:
    schedule = planning.draw_schedule(OPTIONS, WORKLOADS["shop"])
    names = {"kill-instance", "pause-instance"}
    assert not names & ({planned.fault for planned in schedule.planned_faults} | schedule.left_out.keys())
    with pytest.raises(UsageError, match="kill-instance needs a custom pipeline"):
        planning.draw_schedule(replace(OPTIONS, nemesis=("kill-instance",)), WORKLOADS["shop"])


@pytest.mark.parametrize("fault", ["kill-instance", "pause-instance"])
def test_a_fault_in_prepare_commit_needs_links_between_brokers(fault: str, tmp_path: Path) -> None:
    options = replace(OPTIONS, nemesis=(f"{fault}@prepare-commit",))
    custom_pipeline = pipeline(tmp_path, GROUPED.replace('["true"]', '["true", "{prefix}"]'))
    assert planning.draw_schedule(options, custom_pipeline).planned_faults
    with pytest.raises(UsageError, match=f"{fault}@prepare-commit needs 2 brokers or more"):
        planning.draw_schedule(replace(options, brokers=1), custom_pipeline)
    with pytest.raises(UsageError, match=f"{fault}@prepare-commit needs a cluster on which one can"):
        planning.draw_schedule(replace(options, cluster="external", bootstrap="kafka:9092"), custom_pipeline)


def test_an_additional_instance_has_a_name_and_a_transactional_id_of_its_own(tmp_path: Path) -> None:
    options, custom_pipeline = replace(OPTIONS, nemesis=("scale-instances",)), pipeline(tmp_path)
    schedule = planning.draw_schedule(options, custom_pipeline)
    assert {planned.target.name for planned in schedule.planned_faults} == {"bill/bill-4"}
    plan = planning.plan_run(options, custom_pipeline, schedule, tmp_path / "run")
    assert plan.workers == {"bill": ("bill-1", "bill-2", "bill-3")}
    (stage,) = plan.pipeline.stages
    assert stage.workers == ("bill-1", "bill-2", "bill-3", "bill-4")
    assert stage.transactional_ids["bill-4"] == stage.transactional_ids["bill-3"].replace("3", "4")
    usual = planning.plan_run(OPTIONS, custom_pipeline, Schedule(()), tmp_path / "run")
    assert len(plan.worker_endpoints) > len(usual.worker_endpoints)


def test_its_stages_run_its_commands_and_all_other_processes_are_ours(tmp_path: Path) -> None:
    custom_pipeline = pipeline(tmp_path)
    plan = planning.plan_run(OPTIONS, custom_pipeline, Schedule(()), tmp_path / "run")
    assert plan.workers == {"bill": ("bill-1", "bill-2", "bill-3")}
    (stage,) = custom_pipeline.description.stages
    expected = {
        "topic:purchases": "purchases",
        "topic:invoices": "invoices",
        "prefix": "",
        "client_config": "",
        "kafka_jars": "",
    }
    assert plan.programs == {"bill": ExternalProgram(stage, tmp_path, tmp_path / "run", expected)}
    command_line = plan.harness_program.command_line(process_spec(tmp_path, ObserverSpec(())))
    spec = decode(RunSpec, command_line.argv[-1])
    assert spec.pipeline == CustomPipelineSpec(tmp_path / "pipeline.toml", tag="")
    assert command_line.rules is None and spec.seed == 1
    assert list(spec.partition_counts) == ["purchases", "invoices"]


@pytest.mark.parametrize(
    ("permits", "config"), [(("workers",), "c.properties"), (("workers", "links"), None)]
)
def test_its_commands_get_the_tag_and_the_client_properties(
    permits: tuple[str, ...], config: str | None, tmp_path: Path
) -> None:
    text = GROUPED.replace('["true"]', '["true", "{prefix}", "{client_config}"]')
    config_file = str(tmp_path / "c.properties")
    options = replace(OPTIONS, cluster="external", client_config=config_file, permits=permits)
    plan = planning.plan_run(options, pipeline(tmp_path, text), Schedule(()), tmp_path / "run", tag="run-7")
    command_line = plan.harness_program.command_line(process_spec(tmp_path, FeederSpec(1.0)))
    assert decode(RunSpec, command_line.argv[-1]).pipeline.tag == "run-7"
    (command,) = plan.programs.values()
    command_line = command.command_line(process_spec(tmp_path, worker_spec("bill-1", "bill")))
    assert list(command_line.argv[1:]) == ["run-7-", str(tmp_path / config) if config else ""]


def test_its_commands_get_the_class_path_of_the_clusters_version_of_kafka(tmp_path: Path) -> None:
    text = GROUPED.replace('["true"]', '["true", "-cp", "{kafka_jars}"]')
    kafka = KafkaDistribution("4.4.0", (Path("/cache/a.jar"), Path("/cache/b.jar")))
    prepared: Any = SimpleNamespace(kafka=kafka, client=None, preload=None)
    plan = planning.plan_run(OPTIONS, pipeline(tmp_path, text), Schedule(()), tmp_path / "run", prepared)
    command_line = plan.programs["bill"].command_line(process_spec(tmp_path, worker_spec("bill-1", "bill")))
    assert command_line.argv[1:] == ["-cp", "/cache/a.jar:/cache/b.jar"]


def test_it_promises_end_offsets_and_no_journals(tmp_path: Path) -> None:
    for text, within in ((GROUPED, True), (GROUPED.replace('group = "g"', ""), False)):
        plan = planning.plan_run(OPTIONS, pipeline(tmp_path, text), Schedule(()), tmp_path / "run")
        promises = planning.promises_of(OPTIONS, plan)
        assert (promises.journaled, promises.ends, promises.transactions) == ((), OFFSETS, True)
        assert promises.offsets_within is within


@pytest.mark.processes
def test_it_is_ready_if_its_commands_exist_and_its_functions_work(tmp_path: Path) -> None:
    planning.require_ready(pipeline(tmp_path), Options())
    planning.require_ready(WORKLOADS["shop"], Options())
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match=r"the command of stage bill, .*billing, does not exist"):
        planning.require_ready(pipeline(tmp_path, GROUPED.replace('["true"]', '["./billing"]')), Options())
    raising_functions = f"{FUNCTIONS}\ndef outputs(*arguments):\n    raise KeyError('id')\n"
    with pytest.raises(UsageError, match=r"pipeline\.toml: expect\.py:outputs raised KeyError: 'id'"):
        planning.require_ready(pipeline(tmp_path / "other", functions=raising_functions), Options())
