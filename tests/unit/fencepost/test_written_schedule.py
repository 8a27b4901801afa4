"""`--schedule FILE`: the user writes which faults a run has, when, and on which targets."""

from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.registry import command_line, known_names
from fencepost.runs.planning import draw_schedule, plan_run, promises_of
from harness.common.errors import UsageError
from harness.runner.nemesis import PlannedFault, Target
from harness.runner.schedule import Schedule
from harness.settings.options import Options, from_toml, to_toml
from harness.settings.run_file import StoredPlan
from tests.support.user_pipeline import MINIMAL, read_pipeline
from workloads.custom.pipeline import CustomPipeline
from workloads.registry import WORKLOADS

SHOP = WORKLOADS["shop"]


def options_for(folder: Path, text: str, **changes: object) -> Options:
    file = folder / "faults.toml"
    file.write_text(text)
    return replace(Options(schedule=str(file), seed=7, time_limit_s=60.0), **changes)  # type: ignore[arg-type]


def planned(folder: Path, text: str, **changes: object) -> list[PlannedFault]:
    return list(draw_schedule(options_for(folder, text, **changes), SHOP).planned_faults)


def entry(fault: str, start_s: float = 5, more: str = "") -> str:
    return f'[[schedule]]\nfault = "{fault}"\nstart_s = {start_s}\n{more}\n'


def test_what_an_entry_leaves_out_is_drawn_from_the_seed_or_is_the_default(tmp_path: Path) -> None:
    text = entry("kill-broker") + entry("kill-worker", 20)
    kill, worker = planned(tmp_path, text)
    assert (kill.fault, kill.start_s, kill.hold_s, kill.target.role) == ("kill-broker", 5.0, 8.0, "leader")
    assert worker.target.role == "worker" and worker.step is not None
    assert planned(tmp_path, text) == [kill, worker]
    others = {planned(tmp_path, text, seed=seed)[0].target for seed in range(8)}
    assert len(others) > 1


def test_what_an_entry_says_is_planned(tmp_path: Path) -> None:
    text = (
        entry("kill-broker", 5, 'target = "leader:invoices/2"\nhold_s = 12')
        + entry("kill-worker@after-send", 6, 'target = "worker:payments/payments-2"')
        + entry("pause-worker", 20.5, 'step = "after-send"\nstage = "shop"')
        + entry("error-response@EndTxn:NOT_COORDINATOR", 30)
        + entry("lost-response", 40, 'target = "api:Produce"')
    )
    kill, worker, pause, error, lost = planned(tmp_path, text)
    assert kill == PlannedFault("kill-broker", Target("leader", "invoices/2"), 5.0, 12.0)
    assert worker.target == Target("worker", "payments/payments-2") and worker.step == "after-send"
    assert (pause.step, pause.stage, pause.target.name[:5]) == ("after-send", "shop", "shop/")
    assert error.parameters == {"api": "EndTxn", "error": "NOT_COORDINATOR"}
    assert lost.parameters["api"] == "Produce"


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ('target = "broker:2"', "broker:2"),
        ('target = "controller"', "controller"),
        ('target = "follower:invoices/1"', "follower:invoices/1"),
        ('target = "majority:1,3"', "majority:1,3"),
        ('target = "minority"', "minority:"),
        ('target = "leader"', "leader:"),
        ('role = "majority"', "majority:"),
    ],
)
def test_the_target_may_be_a_role_of_brokers(more: str, target: str, tmp_path: Path) -> None:
    (kill,) = planned(tmp_path, entry("kill-broker", 5, more))
    assert str(kill.target) == target or (target.endswith(":") and str(kill.target).startswith(target))
    assert kill.target.brokers <= {"1", "2", "3"} and kill.target.name.strip() == kill.target.name
    text = StoredPlan(Options(), schedule=[kill.as_table()]).text()
    assert planned(tmp_path, text) == [kill]


@pytest.mark.parametrize(
    ("text", "target", "parameters"),
    [
        (entry("partition@bridge", 5), "bridge:", {"role": "bridge"}),
        (entry("partition", 5, 'target = "bridge:3-1-2"'), "bridge:3-1-2", {}),
        (entry("one-way@pair:1-3", 5, 'loses = "sent"'), "pair:1-3", {"role": "pair:1-3", "loses": "sent"}),
        (
            entry("slow-network", 5, 'target = "client:w0-2"\nlatency_ms = 100\njitter_ms = 0'),
            "client:w0-2",
            {"latency_ms": 100, "jitter_ms": 0},
        ),
        (
            entry("limit-bandwidth", 5, 'target = "minority:3"\nkb_per_s = 64'),
            "minority:3",
            {"kb_per_s": 64},
        ),
    ],
)
def test_a_fault_on_links_has_a_shape_and_parameters(
    text: str, target: str, parameters: dict[str, object], tmp_path: Path
) -> None:
    (fault,) = planned(tmp_path, text)
    assert str(fault.target).startswith(target) and fault.parameters == parameters
    stored = StoredPlan(Options(), schedule=[fault.as_table()]).text()
    assert planned(tmp_path, stored, seed=99) == [fault]


def test_a_shape_names_a_minority_of_several_brokers_with_a_hyphen(tmp_path: Path) -> None:
    (fault,) = planned(tmp_path, entry("partition", 5, 'target = "minority:2-4"'), brokers=5)
    assert str(fault.target) == "minority:2-4"


def test_the_parameters_of_a_fault_on_links_are_drawn_if_an_entry_leaves_them_out(tmp_path: Path) -> None:
    drawn = {
        planned(tmp_path, entry("slow-network", 5, 'target = "isolate:1"'), seed=seed)[0].parameters[
            "latency_ms"
        ]
        for seed in range(5)
    }
    assert len(drawn) > 1 and drawn <= set(range(80, 151))


OPERATIONS = (
    entry("move-leader", 5, 'target = "group-coordinator"')
    + entry("reassign-partitions@topic:__transaction_state", 15)
    + entry("roll-segments", 25, 'target = "topic:invoices"')
    + entry("change-transaction-version", 35, 'target = "feature:transaction.version=0"')
)


def test_a_cluster_operation_is_an_entry_and_its_stored_form_is_read_again(tmp_path: Path) -> None:
    faults = planned(tmp_path, OPERATIONS)
    upgrade = planned(tmp_path, entry("rolling-upgrade@back", 5), kafka="4.3.1")
    assert [str(fault.target) for fault in faults[1:] + upgrade] == [
        "topic:__transaction_state",
        "topic:invoices",
        "feature:transaction.version=0",
        "versions:4.3.1,4.4.0,4.3.1",
    ]
    assert faults[0].target.role == "group-coordinator" and faults[0].target.name
    for stored, options in ((faults, {}), (upgrade, {"kafka": "4.3.1"})):
        text = StoredPlan(Options(), schedule=[fault.as_table() for fault in stored]).text()
        assert planned(tmp_path, text, **options) == stored


def test_partitions_of_one_topic_can_be_added_twice(tmp_path: Path) -> None:
    text = entry("add-partitions@invoices", 5) + entry(
        "add-partitions", 25, 'target = "topic:invoices"\nmore = 12'
    )
    first, second = planned(tmp_path, text)
    assert first.target == second.target == Target("topic", "invoices")
    assert first.parameters["more"] in (1, 2, 3) and second.parameters["more"] == 12
    stored = StoredPlan(Options(), schedule=[first.as_table(), second.as_table()]).text()
    assert planned(tmp_path, stored, seed=99) == [first, second]


def test_an_upgrade_is_planned_only_on_a_way_that_kafka_permits(tmp_path: Path) -> None:
    text = entry("rolling-upgrade", 5, 'target = "versions:4.3.1,4.2.1"')
    with pytest.raises(UsageError, match=r'there is no target versions "4\.3\.1,4\.2\.1"'):
        planned(tmp_path, text, kafka="4.3.1")


def test_a_rule_is_an_entry_in_both_of_its_forms(tmp_path: Path) -> None:
    nested = '[[schedule]]\nfault = "rule"\napi = "EndTxn"\naction = "hold"\nwho = { group = "g" }\n'
    nested += 'start_s = 4\nrelease = { after = ["EndTxn", "Produce response"] }\n'
    (rule,) = planned(tmp_path, nested)
    assert (rule.start_s, rule.hold_s) == (4.0, 56.0)
    assert rule.parameters["group"] == "g" and rule.parameters["release.after"] == "EndTxn+Produce response"
    stored = StoredPlan(Options(), schedule=[rule.as_table()]).text()
    assert planned(tmp_path, stored) == [rule]
    early = entry("rule", 0, 'api = "EndTxn"\naction = "drop"\nsince = "start"').replace("start_s = 0", "")
    (rule,) = planned(tmp_path, early)
    assert rule.since_start
    assert planned(tmp_path, StoredPlan(Options(), schedule=[rule.as_table()]).text()) == [rule]


@pytest.mark.parametrize("seed", range(5))
def test_the_run_file_of_a_run_with_drawn_faults_gives_the_same_faults(seed: int, tmp_path: Path) -> None:
    rule = "api=EndTxn,action=drop,start_s=3,probability=0.5"
    names = ("kill-broker", "partition", "kill-worker", "pause-worker", "lost-response")
    named = Options(seed=seed, time_limit_s=200.0, rule=(rule,), nemesis=names)
    faults = draw_schedule(named, SHOP).planned_faults
    text = StoredPlan(named, {"id": 1}, [fault.as_table() for fault in faults], {"name": "shop"}).text()
    assert len(faults) > 5
    assert planned(tmp_path, text, time_limit_s=200.0, seed=99) == list(faults)


def test_an_entry_of_a_stored_run_keeps_that_it_waits_for_no_transaction(tmp_path: Path) -> None:
    pipeline = MINIMAL.replace("[inputs", 'transactional_id = "b-{instance}"\n[inputs')
    custom = CustomPipeline(read_pipeline(tmp_path, pipeline))
    for more, prefers in (("", None), ('prefers = "ongoing"', "ongoing")):
        text = entry("kill-instance", 5, f'target = "worker:bill/bill-1"\n{more}')
        for seed in range(6):
            options = options_for(tmp_path, text, pipeline=str(tmp_path / "pipeline.toml"), seed=seed)
            (fault,) = draw_schedule(options, custom).planned_faults
            assert fault.preferred_state == prefers


def test_the_parameters_of_a_fault_can_be_written(tmp_path: Path) -> None:
    text = entry("jump-broker-clock@txn-coordinator", 5, "ahead_s = -90")
    text += entry("drift-broker-clock", 30, 'rate = 2.5\ntarget = "broker:2"')
    jump, drift = planned(tmp_path, text)
    assert (jump.target.role, jump.parameters["ahead_s"]) == ("txn-coordinator", -90)
    assert (drift.target, drift.parameters) == (Target("broker", "2"), {"rate": 2.5})
    stored = StoredPlan(Options(), schedule=[jump.as_table(), drift.as_table()]).text()
    assert planned(tmp_path, stored) == [jump, drift]


@pytest.mark.parametrize("value", ['"an hour"', "true", "nan", "[1]"])
def test_a_parameter_that_must_be_a_number_is_refused_otherwise(value: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\[\[schedule\]\] 1: (ahead_s is .*: write a number|ahead_s)"):
        planned(tmp_path, entry("jump-broker-clock", 5, f"ahead_s = {value}"))


OVERLAP = entry("kill-broker", 5) + entry("partition", 8, 'target = "isolate:1"')


def test_faults_on_brokers_that_overlap_break_the_premise_that_there_is_always_a_leader(
    tmp_path: Path,
) -> None:
    options = options_for(tmp_path, OVERLAP)
    schedule = draw_schedule(options, SHOP)
    apart = Schedule((schedule.planned_faults[0], replace(schedule.planned_faults[1], start_s=20.0)))
    for planned_schedule, broken in ((schedule, ("leader-always",)), (apart, ())):
        plan = plan_run(options, SHOP, planned_schedule, tmp_path)
        assert promises_of(options, plan).broken_premises == broken


NO_LINKS = {"cluster": "external", "bootstrap": "kafka:9092", "permits": ("workers",), "brokers": 3}
MISTAKES: dict[str, tuple[str, str]] = {
    "an unknown fault": (entry("kill-brokr"), '1: there is no fault "kill-brokr"; did you mean "kill-broker"?'),
    "no fault": ("[[schedule]]\nstart_s = 1", '1: it has no fault: write for example fault = "kill-broker"'),
    "none": (entry("none"), '1: there is no fault "none"'),
    "no time": ('[[schedule]]\nfault = "kill-broker"', "1: it has no start_s: write how many seconds after"),
    "a time that is a text": (entry("kill-broker", 5, 'hold_s = "8"'), "1: hold_s is '8': write a number of seconds"),
    "a negative time": (entry("kill-broker", -1), "1: start_s is -1: write a number of seconds"),
    "a start after the time limit": (
        entry("kill-broker", 70), "1: kill-broker begins at 70 s and lasts 8 s, and the run ends after 60 s: choose"),
    "an end after the time limit": (entry("partition", 55), "begins at 55 s and lasts 10 s, and the run ends after"),
    "a rule after the time limit": (
        entry("rule", 60, 'api = "EndTxn"\naction = "drop"'), "1: a rule: start_s is 60, and the run ends after 60 s"),
    "a rule that can never act": (
        entry("rule", 6, 'api = "EndTxn"\naction = "drop"\ndelay_s = 1'), "1: a rule: delay_s is for action=delay"),
    "a partition that the run does not have": (
        entry("kill-broker", 5, 'target = "leader:invoices/9"'),
        '1: there is no target leader "invoices/9"; did you mean "invoices/',
    ),
    "a worker that the run does not have": (
        entry("kill-worker", 5, 'target = "worker:shop/shop-9"'), '1: there is no target worker "shop/shop-9"'),
    "a stage that the run does not have": (
        entry("kill-worker", 5, 'target = "worker:shops/shop-1"'), '1: there is no target worker "shops/shop-1"'),
    "a broker that the run does not have": (
        entry("partition", 5, 'target = "isolate:4"'), '1: there is no target isolate "4"; there is 1, 2, 3'),
    "a broker of a role that the run does not have": (
        entry("kill-broker", 5, 'target = "majority:1,7"'), '1: there is no broker "7"; there is 1, 2, 3'),
    "a name that a role does not have": (entry("kill-broker@controller:1"), "the role controller has no name"),
    "a role that no broker has": (
        entry("kill-broker@leadr"), 'there is no step or role "leadr"; did you mean "leader"?'),
    "a shape that names too few brokers": (
        entry("partition", 5, 'target = "bridge:1-2"'), "1: bridge:1-2 does not name different brokers of the run"),
    "a shape that the run has no brokers for": (
        entry("half-open@ring", 5), "1: half-open@ring needs 4 brokers or more (with three, bridge is the same)"),
    "a shape that does not exist": (
        entry("slow-network", 5, 'target = "rings:1"'), "1: slow-network cannot act on rings:1: write for example"),
    "a delay that is too long": (
        entry("slow-network", 5, "latency_ms = 5000"), "1: latency_ms is 5000: write a whole number from 80 to 150"),
    "a delay that is a text": (
        entry("slow-network", 5, 'jitter_ms = "1"'), "1: jitter_ms is '1': write a whole number from 0 to 30"),
    "an unknown direction": (
        entry("one-way", 5, 'loses = "both"'), '1: loses is \'both\': write "sent" or "received"'),
    "a target of another fault": (
        entry("kill-worker", 5, 'target = "leader:invoices/0"'),
        '1: kill-worker cannot act on leader:invoices/0: write for example target = "worker:',
    ),
    "a misspelt name": (entry("kill-worker", 5, 'stpe = "after-send"'), 'there is no name "stpe"; did you mean "step"'),
    "an unknown step": (entry("kill-worker", 5, 'step = "after-sent"'), 'there is no step "after-sent"'),
    "two aims": (entry("kill-worker@after-send", 5, 'step = "after-poll"'), "kill-worker@after-send is aimed twice"),
    "a fault that the pipeline does not permit": (
        entry("kill-instance"), "1: kill-instance needs a custom pipeline (--pipeline)"),
    "a list in an entry": (entry("kill-broker", 5, "hold_s = [8]"), "1: hold_s is [8]; write a text, a number"),
    "the same broker twice": (
        entry("partition", 5, 'target = "isolate:2"') + entry("partition", 8, 'target = "pair:1-2"'),
        "partition at 5 s and partition at 8 s cannot overlap, because both act on broker 2: let the second begin",
    ),
    "the same worker twice": (
        entry("kill-worker", 5, 'target = "worker:shop/shop-1"')
        + entry("pause-worker", 5.5, 'target = "worker:shop/shop-1"'),
        "because both act on worker:shop/shop-1",
    ),
    "a time with many digits": (entry("kill-broker", 10**400), "1: start_s is 1000"),
    "a majority of one broker": (
        entry("kill-broker", 5, 'target = "majority:1"'),
        "1: majority:1 is not a majority of the brokers: write 2 to 3 of their numbers, with commas",
    ),
    "a minority in the notation of a shape": (
        entry("kill-broker", 5, 'target = "minority:1-2"'), "1: minority:1-2 is not a minority of the brokers: write"),
    "a broker that is named twice": (
        entry("kill-broker", 5, 'target = "all:1,1,2"'), "1: all:1,1,2 is not the whole cluster: write 3 of"),
    "a restart of every broker that names one": (
        entry("rolling-restart", 5, 'target = "all:1"'), "1: all:1 is not the whole cluster: write 3 of"),
    "a delay that is none": (
        entry("slow-fsync", 5, "delay_s = 1e-9"), "1: delay_s is 1e-09: write a number from 0.01 to 60, for example"),
    "a negative delay": (entry("slow-fsync", 5, "delay_s = -5"), "1: delay_s is -5: write a number from 0.01 to 60"),
    "a jump of three hundred years": (
        entry("jump-broker-clock", 5, "ahead_s = 1e10"), "1: ahead_s is 10000000000.0: write a number from -3."),
    "more partitions than a topic may get": (
        entry("add-partitions", 5, "more = 101"), "1: more is 101: write a whole number from 1 to 100"),
    "no more partitions": (
        entry("add-partitions", 5, "more = 0"), "1: more is 0: write a whole number from 1 to 100"),
    "a number of partitions that is true": (
        entry("add-partitions", 5, "more = true"), "1: more is True: write a whole number from 1 to 100"),
    "half a partition": (entry("add-partitions", 5, "more = 1.5"), "1: more is 1.5: write a whole number"),
    "partitions of an unknown topic": (
        entry("add-partitions", 5, 'target = "topic:invoces"'), 'no topic "invoces"; did you mean "invoices"?'),
    "partitions of an internal topic": (
        entry("add-partitions", 5, 'target = "topic:__consumer_offsets"'),
        "1: __consumer_offsets is an internal topic of Kafka",
    ),
    "the same topic twice": (
        entry("roll-segments", 5, 'target = "topic:invoices"') + entry("roll-segments", 9, 'target = "topic:invoices"'),
        "because both act on topic:invoices",
    ),
    "two changes of features": (
        entry("change-transaction-version", 5, 'target = "feature:transaction.version=1"')
        + entry("change-transaction-version", 8, 'target = "feature:transaction.version=0"'),
        "because both change the features of the cluster",
    ),
    "two changes of replicas": (
        entry("reassign-partitions", 5) + entry("move-leader", 8),
        "because both change the replicas of partitions",
    ),
    "two broken disks": (
        entry("slow-fsync@controller", 5) + entry("fill-disk", 8), "because both change the disks of brokers"),
    "two wrong clocks": (
        entry("jump-broker-clock", 5) + entry("jump-worker-clock", 8), "because both change the clocks"),
    "a topic that the run does not have": (
        entry("roll-segments", 5, 'target = "topic:invoice"'),
        '1: there is no target topic "invoice"; did you mean "invoices"?',
    ),
    "a level that the change cannot lead to": (
        entry("change-transaction-version", 5, 'target = "feature:transaction.version=2"'),
        '1: there is no target feature "transaction.version=2"; did you mean "transaction.version=1"?',
    ),
    "an upgrade from the newest version": (
        entry("rolling-upgrade", 5), "1: rolling-upgrade needs an older version at the start, such as --kafka"),
    "no schedule": ("[options]\nseed = 1", "has no [[schedule]]: write one for each fault"),
    "an unknown table": ('[[rule]]\napi = "EndTxn"', 'there is no table "rule"'),
    "no TOML": ("[[schedule]", "is not TOML: "),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_one_sentence_that_names_the_file(mistake: str, tmp_path: Path) -> None:
    text, words = MISTAKES[mistake]
    with pytest.raises(UsageError) as refused:
        planned(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(f"--schedule {tmp_path / 'faults.toml'}") and words in message
    assert "\n" not in message


@pytest.mark.parametrize("fault", ["empty-disk", "truncate-segment", "flip-bit"])
def test_a_fault_that_destroys_a_replica_is_refused_if_there_is_no_other(fault: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=f"1: {fault} needs 2 replicas or more of each topic, because it destr"
    ):
        planned(tmp_path, entry(fault), replicas=1)
    (kept,) = planned(tmp_path, entry(fault), replicas=2)
    assert kept.fault == fault


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        draw_schedule(Options(schedule=str(tmp_path / "nothing.toml"), seed=1), SHOP)


def test_a_fault_that_the_cluster_cannot_inject_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1: kill-broker needs a cluster on which one can kill"):
        planned(tmp_path, entry("kill-broker"), **NO_LINKS)


def test_the_faults_are_chosen_in_one_way_only(tmp_path: Path) -> None:
    options = options_for(tmp_path, entry("kill-broker"))
    assert options.validated(known_names()) == options
    with pytest.raises(
        UsageError, match="--schedule and --nemesis both choose the faults of the run: leave one"
    ):
        replace(options, nemesis=("kill-broker",)).validated(known_names())


def test_the_command_that_repeats_the_run_names_the_file_and_the_options_survive_toml(tmp_path: Path) -> None:
    options = options_for(tmp_path, entry("kill-broker"))
    assert f"--schedule {tmp_path / 'faults.toml'}" in command_line(options)
    assert from_toml(to_toml(options)) == options
