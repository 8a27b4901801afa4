"""From options to a run plan."""

import subprocess
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from fencepost import registry
from fencepost.commands.options import options_from
from fencepost.registry import command_line
from fencepost.runs import planning
from fencepost.runs.planning import source_commit
from fencepost.runs.programs import apply_options
from fencepost.runs.protocol_rules import decoded_links
from harness.cluster.kinds.registry import CLUSTERS
from harness.common.documents import decode_table
from harness.common.errors import UsageError
from harness.environment.client_parts import ClientParts
from harness.environment.versions import client_version
from harness.model.pipeline import PipelineSpec
from harness.model.promises import Promises
from harness.processes.messages import decode
from harness.processes.specs import ClientSpec, RunSpec
from harness.record.naming import PartitionIds
from harness.runner.nemesis import PlannedFault, Target
from harness.runner.schedule import Schedule
from harness.settings.options import Options
from harness.settings.run_file import StoredPlan
from tests.support.specs import process_spec, worker_spec
from tests.support.user_pipeline import MINIMAL, read_pipeline
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS


def test_a_fault_that_is_not_a_default_is_planned_only_if_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nemeses_ = {
        name: replace(nemesis, by_default=name != "kill-broker")
        for name, nemesis in registry.nemeses().items()
    }
    monkeypatch.setattr(registry, "nemeses", lambda: MappingProxyType(nemeses_))
    options = Options(kafka="4.3.1", time_limit_s=1200, seed=1, txn_timeout_s=3.0)  # short for late-produce
    schedule = planning.draw_schedule(options, WORKLOADS["shop"])
    possible = {
        name
        for name, nemesis in nemeses_.items()
        if nemesis.needs <= CLUSTERS["local"].abilities and name != "rule"
    }
    assert {planned.fault for planned in schedule.planned_faults} == possible - {
        "kill-broker",
        "kill-postgres",
        "kill-instance",
        "jump-instance-clock",
        "pause-instance",
        "pause-instance-unreplaced",
        "restart-instance",
        "scale-instances",
    }
    assert "kill-broker" not in schedule.left_out
    requested = planning.draw_schedule(replace(options, nemesis=("kill-broker",)), WORKLOADS["shop"])
    assert {planned.fault for planned in requested.planned_faults} == {"kill-broker"}


@pytest.mark.parametrize(
    ("workload", "fixed"),
    [
        ("sales", {"by-region", "totals"}),
        ("merge", {"bookings", "balances"}),
        ("cdc", {"users"}),
        ("txn", {"keys-a", "keys-b"}),
    ],
)
def test_topics_whose_partitions_hold_state_must_not_get_more(workload: str, fixed: set[str]) -> None:
    pipeline = WORKLOADS[workload]
    assert set(pipeline.fixed_topics) == fixed
    for topic in fixed:
        options = Options(workload=workload, seed=1, nemesis=(f"add-partitions@{topic}",))
        with pytest.raises(UsageError, match=f"^{topic} must not get partitions, because the stage "):
            planning.draw_schedule(options, pipeline)


def test_all_other_workloads_can_get_partitions_in_each_topic() -> None:
    others = [name for name, workload in WORKLOADS.items() if not workload.fixed_topics]
    assert {"shop", "square", "orders", "outbox", "at-least-once"} <= set(others)
    for name in others:
        options = Options(workload=name, seed=1, nemesis=("add-partitions",), time_limit_s=20)
        assert planning.draw_schedule(options, WORKLOADS[name]).planned_faults[0].target.role == "topic"


def test_a_partition_that_is_added_has_a_transactional_id_like_those_before_it() -> None:
    (square,) = WORKLOADS["square"].spec(Options(workload="square")).stages
    assert square.transactional_id_of("square-1", [("numbers", 0)]) == "numbers-0"
    assert square.transactional_id_of("square-1", [("numbers", 17)]) == "numbers-17"
    assert square.transactional_id_of("square-1", [("squares", 0)]) is None
    shop = WORKLOADS["shop"].spec(Options()).stages[0]
    assert shop.transactional_id_of("shop-1", [("purchases", 17)]) == "shop-1"


def test_only_a_run_with_free_stages_promises_the_clients_history(tmp_path: Path) -> None:
    for name, promised in (("txn", True), ("shop", False)):
        options = Options(workload=name, seed=1)
        plan = planning.plan_run(options, WORKLOADS[name], Schedule(()), tmp_path)
        promises = planning.promises_of(options, plan)
        assert promises.history is promised and promises.free_stages == (("txn",) if promised else ())
        assert decode_table(asdict(promises), Promises) == promises
        spec = plan.pipeline
        assert PipelineSpec.from_table(spec.as_table()) == spec


@pytest.mark.parametrize(
    ("changes", "workload", "message"),
    [
        ({"record_bytes": 1000}, "txn", "record-bytes needs a workload that makes outputs from inputs"),
        ({"empty_share": 0.1}, "idempotent", "empty-share needs a workload that delivers its outputs"),
        ({"overrun_share": 0.1}, "txn", "overrun-share needs a workload that delivers its outputs"),
        ({"replicas": 4}, "shop", "4 replicas need as many brokers, and the cluster has 3"),
    ],
)
def test_an_option_that_the_workload_cannot_have_is_refused(
    changes: dict[str, Any], workload: str, message: str
) -> None:
    options = replace(Options(workload=workload), **changes)
    spec = WORKLOADS[workload].spec(options)
    with pytest.raises(UsageError, match=message):
        apply_options(spec, options, WORKLOADS[workload])


@pytest.mark.parametrize(("replicas", "in_sync"), [(None, "2"), (1, "1"), (2, "1"), (3, "2")])
def test_the_topics_of_a_workload_have_the_replicas_of_the_options(
    replicas: int | None, in_sync: str
) -> None:
    options = Options(replicas=replicas)
    topics = planning.pipeline_spec(options, WORKLOADS["shop"]).topics
    assert {topic.replication for topic in topics} == {replicas or 3}
    assert {topic.config["min.insync.replicas"] for topic in topics} == {in_sync}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_on_a_shared_cluster_all_names_of_a_run_begin_with_its_tag(name: str, tmp_path: Path) -> None:
    options = Options(workload=name, cluster="external", bootstrap="kafka:9092", brokers=3, seed=1)
    tag = planning.tag_for(options)
    assert tag.startswith("fencepost-")
    assert planning.tag_for(options) != tag
    plan = planning.plan_run(options, WORKLOADS[name], Schedule(()), tmp_path, tag=tag)
    spec = plan.pipeline
    ids = [name for stage in spec.stages for name in stage.transactional_ids.values()]
    groups = [stage.group for stage in spec.stages if stage.group is not None]
    names = [*(topic.name for topic in spec.topics), *groups, *ids]
    assert [name for name in names if not name.startswith(f"{tag}-")] == []
    promised = planning.promises_of(options, plan)
    assert (promised.witness, promised.replicas, promised.one_clock) == ("fetch", False, False)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_every_process_numbers_partitions_as_the_stored_plan_does(name: str, tmp_path: Path) -> None:
    options = Options(workload=name, seed=1)
    plan = planning.plan_run(options, WORKLOADS[name], Schedule(()), tmp_path, tag="run-7")
    command_line = plan.harness_program.command_line(process_spec(tmp_path, worker_spec()))
    run_spec = decode(RunSpec, command_line.argv[-1])
    StoredPlan(options, workload=plan.pipeline.as_table()).save(tmp_path / "run.toml")
    stored = StoredPlan.load(tmp_path / "run.toml").pipeline
    numbers = list(PartitionIds(run_spec.partition_counts))
    assert numbers == list(PartitionIds(stored.partition_counts))
    tables = [(table.name, 0) for table in stored.tables]
    assert [(topic, partition) for _, topic, partition in numbers] == [*stored.topic_partitions, *tables]


def prepared_with(client: ClientParts | None) -> Any:
    java = SimpleNamespace(home=Path("/java"), version=17)
    return SimpleNamespace(
        client=client,
        java=java,
        kafka=SimpleNamespace(class_path=(Path("/of-the-cluster.jar"),)),
        preload=None,
    )


def launch(
    options: Options, client: ClientParts | None, folder: Path
) -> tuple[ClientSpec, Mapping[str, str]]:
    """The client spec of every process of the run, and its environment."""
    schedule = Schedule(())
    plan = planning.plan_run(options, WORKLOADS["shop"], schedule, folder, prepared_with(client))
    assert set(map(id, plan.programs.values())) == {id(plan.harness_program)}
    command_line = plan.harness_program.command_line(process_spec(folder, worker_spec()))
    spec = decode(RunSpec, command_line.argv[-1]).client
    assert spec is not None
    return spec, command_line.env


def test_a_pinned_librdkafka_is_first_on_the_path_of_every_process(tmp_path: Path) -> None:
    parts = ClientParts(client_version("librdkafka", "2.9.0"), tmp_path / "client")
    spec, env = launch(Options(client="librdkafka:2.9.0", seed=1), parts, tmp_path)
    assert (spec.name, spec.version) == ("librdkafka", "2.9.0")
    assert env["PYTHONPATH"].split(":")[0] == str(tmp_path / "client")


def test_a_pinned_java_client_replaces_that_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.runs.programs.jvm_library", lambda java: Path("/libjvm.so"))
    jar = Path("/cache/kafka-clients-3.9.1.jar")
    parts = ClientParts(client_version("java", "3.9.1"), jar.parent, (jar,))
    spec, env = launch(Options(client="java:3.9.1", seed=1), parts, tmp_path)
    assert (spec.name, spec.version, dict(env)) == ("java", "3.9.1", {})
    assert spec.jvm is not None and spec.jvm.class_path == (jar,)
    spec, _ = launch(Options(client="java", seed=1), None, tmp_path)
    assert spec.jvm is not None and spec.jvm.class_path == (Path("/of-the-cluster.jar"),)
    assert spec.version is None


def test_a_defect_that_a_client_prevents_is_refused_for_its_pinned_versions() -> None:
    options = Options(workload="orders", defect="swallow-send-error", client="java:3.9.1")
    with pytest.raises(UsageError, match="choose --client librdkafka"):
        planning.pipeline_spec(options, WORKLOADS["orders"])
    planning.pipeline_spec(replace(options, client="librdkafka:2.9.0"), WORKLOADS["orders"])


def test_on_its_own_cluster_a_run_has_no_tag() -> None:
    assert planning.tag_for(Options()) == ""


def test_broker_logs_of_a_local_cluster_are_read_as_the_option_says(tmp_path: Path) -> None:
    for option, witness, replicas in ((None, "segments", True), ("fetch", "fetch", False)):
        options = Options(witness=option, seed=1)
        plan = planning.plan_run(options, WORKLOADS["shop"], Schedule(()), tmp_path)
        promised = planning.promises_of(options, plan)
        assert (promised.witness, promised.replicas) == (witness, replicas)
        assert promised.internal_logs == plan.pipeline.internal_topics


def test_segment_files_of_an_external_cluster_are_refused() -> None:
    options = Options(cluster="external", bootstrap="kafka:9092", witness="segments", seed=1)
    with pytest.raises(UsageError, match="leave out witness=segments"):
        planning.draw_schedule(options, WORKLOADS["shop"])


def test_on_an_external_cluster_only_worker_faults_are_planned() -> None:
    options = Options(cluster="external", bootstrap="kafka:9092", seed=1, time_limit_s=120)
    schedule = planning.draw_schedule(options, WORKLOADS["shop"])
    assert {planned.fault for planned in schedule.planned_faults} == {"kill-worker", "pause-worker"}
    for fault, lacks in (
        ("kill-broker", "kill"),
        ("kill-broker@majority", "kill"),
        ("partition", "cut links"),
    ):
        with pytest.raises(UsageError, match=f"{fault} needs a cluster on which one can {lacks}"):
            planning.draw_schedule(replace(options, nemesis=(fault,)), WORKLOADS["shop"])


def test_permitted_link_faults_cut_only_links_between_clients_and_brokers() -> None:
    options = Options(
        cluster="external", bootstrap="kafka:9092", permits=("workers", "links"), time_limit_s=120
    )
    schedules = [planning.draw_schedule(replace(options, seed=seed), WORKLOADS["shop"]) for seed in range(20)]
    planned_faults = [planned for schedule in schedules for planned in schedule.planned_faults]
    assert {planned.fault for planned in planned_faults} == {"kill-worker", "pause-worker", "partition"}
    assert {planned.target.role for planned in planned_faults if planned.fault == "partition"} == {"client"}
    for fault in ("lose-answers", "cut-txn-coordinator"):
        assert planning.draw_schedule(
            replace(options, seed=1, nemesis=(fault,)), WORKLOADS["shop"]
        ).planned_faults
    lacks = "cut brokers from each other, kill brokers and read the segment files"
    with pytest.raises(UsageError, match=f"kill-leader-ahead needs a cluster on which one can {lacks}"):
        planning.draw_schedule(replace(options, seed=1, nemesis=("kill-leader-ahead",)), WORKLOADS["shop"])


def test_a_worker_knows_whether_proxies_are_in_its_path(tmp_path: Path) -> None:
    for permits, behind in ((None, False), (("workers",), False), (("links",), True)):
        options = Options(cluster="external", bootstrap="kafka:9092", permits=permits, seed=1)
        plan = planning.plan_run(options, WORKLOADS["shop"], Schedule(()), tmp_path)
        assert plan.harness_program.common.connection.proxied is behind  # type: ignore[attr-defined]


def test_the_number_of_brokers_of_an_external_cluster_cannot_be_set(tmp_path: Path) -> None:
    external = ["cluster=external", "bootstrap=kafka:9092"]
    config = tmp_path / "run.toml"
    config.write_text('[options]\ncluster = "external"\nbootstrap = "kafka:9092"\nbrokers = 5\n')
    for flags, sets, file in (
        ({"brokers": "3"}, external, None),
        ({}, [*external, "brokers=3"], None),
        ({}, [], str(config)),
    ):
        with pytest.raises(UsageError, match="leave out --brokers"):
            options_from(flags, sets, file)
    stored = Options(cluster="external", bootstrap="kafka:9092", brokers=5)
    config.write_text(StoredPlan(stored, {"id": 1}).text())
    assert options_from({}, [], str(config)).brokers == 5
    assert "--brokers" not in command_line(stored)


def test_a_fault_at_unknown_transactional_ids_needs_the_protocol_proxy(tmp_path: Path) -> None:
    programs = CustomPipeline(read_pipeline(tmp_path, MINIMAL.replace('"true"', '"true", "{prefix}"')))
    options = Options(nemesis=("kill-instance@ongoing",), seed=1)
    (first, *_) = planning.draw_schedule(options, programs).planned_faults
    assert first.state == "ongoing"
    external = replace(options, cluster="external", bootstrap="kafka:9092", permits=("workers",))
    with pytest.raises(UsageError, match="a pipeline with a transactional id"):
        planning.draw_schedule(external, programs)
    assert planning.draw_schedule(replace(external, permits=("workers", "links")), programs).planned_faults


@pytest.mark.parametrize(
    ("fault", "parameters", "declared", "decoded"),
    [
        ("kill-instance", {}, False, ()),
        ("kill-instance", {"prefers": "ongoing"}, False, ("client:w",)),
        ("kill-instance", {"state": "ongoing"}, False, ("client:w",)),
        ("kill-instance", {"state": "ongoing"}, True, ()),
        ("pause-instance", {}, True, ("client:w",)),
        ("kill-broker", {}, False, ()),
        ("late-end-txn", {}, True, ("client:w",)),
        ("late-marker", {}, True, ("peer:",)),
        ("rule", {"links": "peer"}, True, ("peer:",)),
    ],
)
def test_only_the_links_that_a_fault_needs_pass_through_the_protocol_proxy(
    fault: str, parameters: dict[str, str], declared: bool, decoded: tuple[str, ...], tmp_path: Path
) -> None:
    named = MINIMAL.replace("command", 'transactional_id = "bill-{instance}"\ncommand')
    pipeline = CustomPipeline(read_pipeline(tmp_path, named if declared else MINIMAL))
    schedule = Schedule((PlannedFault(fault, Target("worker", "bill/bill-1"), 1.0, 1.0, parameters),))
    options = Options(seed=1)
    plan = planning.plan_run(options, pipeline, schedule, tmp_path)
    assert decoded_links(options, plan.pipeline, plan.faults) == decoded
    external = Options(cluster="external", bootstrap="kafka:9092", permits=("workers",))
    assert decoded_links(external, plan.pipeline, plan.faults) == ()


def test_the_seed_of_the_run_decides_on_which_messages_a_rule_acts() -> None:
    options = Options(seed=7, rule=("api=Produce,action=drop,probability=0.5", "api=EndTxn,action=drop"))
    random_rule, plain_rule = planning.draw_schedule(options, WORKLOADS["shop"]).planned_faults
    assert random_rule.parameters["seed"] == 7 and "seed" not in plain_rule.parameters


@pytest.mark.processes
def test_the_commit_of_a_clone_is_known_and_whether_it_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        own = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *own, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    (tmp_path / "file").write_text("first")
    git("init", "-q")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    assert source_commit(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "file").write_text("second")
    assert source_commit(tmp_path) == f"{git('rev-parse', 'HEAD')}-dirty"


@pytest.mark.parametrize(
    ("direct_url", "commit"),
    [('{"vcs_info": {"vcs": "git", "commit_id": "4711"}}', "4711"), ('{"dir_info": {}}', None), (None, None)],
)
def test_the_commit_of_an_installation_is_known_if_it_came_from_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: str | None, commit: str | None
) -> None:
    installed = SimpleNamespace(read_text=lambda name: direct_url)
    monkeypatch.setattr("fencepost.runs.planning.distribution", lambda name: installed)
    assert source_commit(tmp_path) == commit
