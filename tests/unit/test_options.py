"""Options: which values are refused, and that stored options repeat the run."""

import math
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.registry import command_line
from harness.cluster.kinds.registry import require_options
from harness.common.documents import parse_toml
from harness.common.errors import UnreadableInput, UsageError
from harness.common.wording import check_name
from harness.environment.versions import DEFAULT_KAFKA
from harness.protocol.rule_options import rules_of
from harness.settings.kinds import Duration
from harness.settings.options import (
    FIELDS,
    KnownNames,
    Options,
    from_toml,
    parse,
    parse_set,
    to_toml,
)
from harness.settings.run_file import StoredPlan

KNOWN = KnownNames(
    workloads=["shop"],
    require_fault=lambda name: check_name("fault", name, ["kill-broker", "kill-worker", "none"]),
    require_cluster=require_options,
    defects=["no-rewind"],
    kafka=[DEFAULT_KAFKA],
    read_rules=rules_of,
)
ALL_CHANGED = Options(
    nemesis=("kill-broker", "kill-worker"),
    time_limit_s=12.5,
    seed=7,
    rate=0.1,
    defect="no-rewind",
    store="a folder/it's",
    name="nightly",
    keep="logs",
    client="librdkafka:2.16.1",
    first_port=20000,
    mirror="https://example.org/maven",
    spark_conf={"spark.local.dir": "/a b"},
    settings={"log.segment.bytes": "1024"},
)


def repeat(command: str) -> Options:
    """Read the flags of a command as the command line does."""
    words = shlex.split(command)[2:]
    options = Options()
    for flag, text in zip(words[::2], words[1::2], strict=True):
        values = parse_set(text) if flag == "--set" else parse(flag.removeprefix("--"), text)
        options = options.updated(values)
    return options


def test_the_defaults_are_valid():
    assert Options().validated(KNOWN) == Options()


@pytest.mark.parametrize("options", [Options(), ALL_CHANGED])
def test_a_round_trip_through_toml_is_exact(options, tmp_path: Path):
    StoredPlan(options).save(tmp_path / "run.toml")
    assert StoredPlan.load(tmp_path / "run.toml").options == options
    assert from_toml(to_toml(options)) == options


@pytest.mark.parametrize("options", [Options(), ALL_CHANGED])
def test_the_command_line_repeats_the_options(options):
    assert repeat(command_line(options)) == options.validated(KNOWN)


LINE = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)
ANY = st.builds(
    Options,
    nemesis=st.none() | st.permutations(["kill-broker", "kill-worker"]).map(tuple) | st.just(("none",)),
    time_limit_s=st.floats(1, 86400),
    seed=st.none() | st.integers(0, 2**63 - 1),
    rate=st.floats(0.1, 100_000),
    store=LINE,
    abort_share=st.floats(0, 0.5),
    first_port=st.none() | st.integers(1024, 65_000),
    spark_conf=st.dictionaries(st.from_regex(r"spark\.[a-z.]{1,9}", fullmatch=True), LINE, max_size=2),
    settings=st.dictionaries(st.from_regex(r"[a-z][a-z0-9._-]{0,9}", fullmatch=True), LINE, max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(ANY)
def test_any_valid_options_can_be_stored_and_repeated(options):
    assert options.validated(KNOWN) == options
    assert from_toml(parse_toml(StoredPlan(options).text())["options"]) == options.redacted()
    assert repeat(command_line(options)) == options.redacted()


def test_a_command_names_only_options_that_are_not_the_default():
    assert command_line(Options(seed=3)) == "fencepost run --seed 3"


def test_every_option_has_a_help_text():
    assert all(field.metadata["help"] for field in FIELDS.values())


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("workers=0", "workers must be a whole number from 1 to 16, not 0"),
        ("workers=three", 'not "three"'),
        ("workers=2.0", 'not "2.0"'),
        ("brokers=8", "brokers must be a whole number from 1 to 7, not 8"),
        ("rate=nan", "not nan"),
        ("rate=-1", "not -1"),
        ("time-limit=inf", "from 1 to 86400 seconds, not inf"),
        ("txn-size=10001", "from 1 to 10000"),
        ("seed=-1", "seed must be"),
        ("wrokers=3", 'did you mean "workers"?'),
        ("client=librdkafk", 'did you mean "librdkafka"?'),
        ("client=librdkafk:2.9.0", 'did you mean "librdkafka"?'),
        ("client=java:", "client must be one of librdkafka, java, with or without a version"),
        ("client=java:a b", 'not "java:a b"'),
        ("name=../up", "name must be"),
        ("mirror=example.org", "mirror must be a URL"),
        ("master=lokal", "master must be a Spark master"),
        ("broker.UPPER CASE=1", "a name in broker must be"),
        ("nemesis=none,kill-broker", 'has "none" and other names: none, kill-broker; leave one of them out'),
        ("nemesis=kill-broker,kill-broker", "contains a name twice"),
        ("nemesis=", "a list of names"),
        ("store=", "the path of a folder"),
        ("no-equals-sign", "--set must be KEY=VALUE"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(assignment, words):
    with pytest.raises(UsageError) as error:
        parse_set(assignment)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(workload="shopp"), 'no workload "shopp"; did you mean "shop"?'),
        (Options(nemesis=("kill-brokr",)), 'did you mean "kill-broker"?'),
        (Options(defect="rewind"), 'did you mean "no-rewind"?'),
        (Options(kafka="3.9"), 'no Kafka version "3.9"'),
        (Options(client="librdkafka:2.9.9"), 'did you mean "librdkafka:2.9.0"?'),
        (Options(client="java:9"), "java:4.4.0"),
        (Options(name="latest"), "latest"),
        (Options(java="bundeld"), "a path that exists"),
        (Options(workers=True), "workers must be"),
        (Options(rate=math.nan), "rate must be"),
        (Options(store="a\x00b"), "store must be"),
        (Options(store="\udcff"), "store must be"),
    ],
)
def test_validation_refuses_wrong_values_from_python(options, words):
    with pytest.raises(UsageError, match=r"^[^\n]*$") as error:
        options.validated(KNOWN)
    assert words in str(error.value)


def test_nemesis_none_differs_from_no_nemesis():
    assert Options(nemesis=("none",)).validated(KNOWN).nemesis == ("none",)
    assert Options().nemesis is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("45m", 2700), ("2h", 7200), (" 1.5 h", 5400)]
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float):
    assert Duration().parse("idle", text) == Duration().accept("idle", text) == seconds
    assert Duration().accept("idle", seconds) == seconds


@pytest.mark.parametrize(
    "value", ["soon", "", "0", "0s", "-1m", "1d", "9" * 400, 0, -1.0, math.inf, True, None]
)
def test_a_wrong_duration_is_refused(value: object):
    with pytest.raises(UsageError, match="idle must be a duration, such as 90m or 2h"):
        Duration().accept("idle", value)


def test_broker_settings_add_up():
    options = Options().updated(parse_set("broker.a=1")).updated(parse_set("broker.b=x=y"))
    assert options.settings == {"a": "1", "b": "x=y"}


def test_keys_may_have_underscores():
    assert Options().updated({"txn_size": 3}).txn_size == 3


def test_a_number_in_toml_must_not_be_text():
    with pytest.raises(UsageError, match="workers must be"):
        from_toml({"workers": "3"})


def test_a_stored_plan_keeps_its_schedule_and_leaves_out_none(tmp_path: Path):
    plan = StoredPlan(
        Options(), {"id": "x", "end": None}, [{"fault": "kill-broker", "start_s": 1.5}], {"topics": ["a"]}
    )
    plan.save(tmp_path / "run.toml")
    assert "[[schedule]]" in plan.text()
    assert StoredPlan.load(tmp_path / "run.toml") == StoredPlan(
        Options(), {"id": "x"}, plan.schedule, plan.workload
    )


@pytest.mark.parametrize(
    "text",
    ["[options", "[optoins]\n", "options = 3\n", "[options]\nworkers = 99\n", "[options]\nrate = nan\n"],
)
def test_a_plan_that_cannot_be_read_names_its_file(text, tmp_path: Path):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(UnreadableInput, match=r"run\.toml cannot be read: [^\n]*$"):
        StoredPlan.load(tmp_path / "run.toml")
    with pytest.raises(UnreadableInput, match="No such file"):
        StoredPlan.load(tmp_path / "absent.toml")
