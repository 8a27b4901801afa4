"""The pipeline.toml of a user: its keys, and for each mistake an error of one line that names the file and the key."""

import re
from pathlib import Path

import pytest

from harness.common.errors import UsageError
from harness.model.vocabulary import Guarantee
from harness.processes.specs import ProgramRules
from tests.support.user_pipeline import MINIMAL, WITH_OUTPUTS, read_pipeline, write_pipeline
from workloads.custom.description import (
    CONTENT,
    CustomStage,
    CustomTopic,
    ExpectedOutputs,
    InputSource,
    PipelineDescription,
    ProgressSource,
    UserFunction,
)
from workloads.custom.read import read

EVERY_KEY = """
name = "billing"
guarantee = "at-least-once"

[[stage]]
name = "bill"
reads = ["purchases", "refunds"]
writes = ["invoices"]
command = ["./billing", "--brokers", "{bootstrap}", "--id", "billing-{instance}"]
instances = 2
group = "billing"
transactional_id = "billing-{instance}"
transaction_timeout_s = 20
ordered = true
cwd = "src"
env = { RUN = "{run}", LEVEL = 3, TRACE = true }
ready = "line:started in [0-9]+ ms"
ready_within_s = 90
stop = "SIGINT"
stop_within_s = 5
kind = "job"
every_s = 7.5

[[stage]]
name = "count"
reads = ["invoices"]
writes = ["totals"]
command = ["count"]
transactions = false

[inputs.purchases]
make = "expect.py:purchase"
share = 2.5
partitioner = "fnv1a_random"

[inputs.refunds]
file = "refunds.jsonl"

[topics.invoices]
partitions = 6
config = { "cleanup.policy" = "compact" }

[expect]
outputs = "expect.py:outputs"
correlate = "header:id"
ignore = ["/created_at", "header:trace"]
compare = { invoices = ["headers", "partition"] }
"""


def test_a_file_with_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "refunds.jsonl").write_text("")
    description = read_pipeline(tmp_path, EVERY_KEY)
    functions = tmp_path / "expect.py"
    bill = CustomStage(
        name="bill",
        reads=("purchases", "refunds"),
        writes=("invoices",),
        command=("./billing", "--brokers", "{bootstrap}", "--id", "billing-{instance}"),
        instances=2,
        group="billing",
        transactional_id="billing-{instance}",
        transaction_timeout_s=20.0,
        ordered=True,
        cwd="src",
        env={"RUN": "{run}", "LEVEL": "3", "TRACE": "true"},
        kind="job",
        every_s=7.5,
        ready="line:started in [0-9]+ ms",
        ready_within_s=90.0,
        stop="SIGINT",
        stop_within_s=5.0,
    )
    assert description == PipelineDescription(
        file=tmp_path / "pipeline.toml",
        name="billing",
        stages=(bill, CustomStage("count", ("invoices",), ("totals",), ("count",), transactions=False)),
        inputs={
            "purchases": InputSource(
                make=UserFunction(functions, "purchase"), share=2.5, partitioner="fnv1a_random"
            ),
            "refunds": InputSource(file=tmp_path / "refunds.jsonl"),
        },
        guarantee=Guarantee.AT_LEAST_ONCE,
        expect=ExpectedOutputs(
            outputs=UserFunction(functions, "outputs"),
            correlate="header:id",
            ignore=("/created_at", "header:trace"),
            compare={"invoices": ("headers", "partition")},
        ),
        topics={"invoices": CustomTopic(6, {"cleanup.policy": "compact"})},
    )
    assert list(map(str, description.functions)) == ["expect.py:purchase", "expect.py:outputs"]


def test_the_progress_of_a_stage_is_a_command_or_a_query(tmp_path: Path) -> None:
    for text, progress in (
        ('command = ["x", "{bootstrap}"]', ProgressSource(("x", "{bootstrap}"))),
        ('sql = "SELECT 1"\ndatabase = "a.db"\nwithin_s = 3', ProgressSource((), "SELECT 1", "a.db", 3.0)),
    ):
        (stage,) = read_pipeline(
            tmp_path, MINIMAL.replace("[inputs", f"[stage.progress]\n{text}\n[inputs")
        ).stages
        assert stage.progress == progress


def test_a_job_that_prints_its_progress_may_write_seldom(tmp_path: Path) -> None:
    text = MINIMAL.replace("command", 'kind = "job"\nevery_s = 60\ncommand')
    text = text.replace("[inputs", '[stage.progress]\ncommand = ["x"]\n[inputs')
    assert read_pipeline(tmp_path, text).stages[0].every_s == 60


def test_a_minimal_file_promises_exactly_once_and_expects_no_outputs(tmp_path: Path) -> None:
    description = read_pipeline(tmp_path, MINIMAL)
    assert (description.guarantee, description.expect, description.topics) == (
        Guarantee.EXACTLY_ONCE,
        None,
        {},
    )
    (stage,) = description.stages
    assert (stage.instances, stage.transactions, stage.group, stage.rules) == (3, True, None, ProgramRules())


def test_outputs_are_correlated_by_content_unless_the_file_names_a_key(tmp_path: Path) -> None:
    for line, correlate in (
        ("", CONTENT),
        ('correlate = "key"', "key"),
        ('correlate = "expect.py:about"', UserFunction(tmp_path / "expect.py", "about")),
    ):
        expect = read_pipeline(tmp_path, f"{WITH_OUTPUTS}{line}").expect
        assert expect is not None and expect.correlate == correlate


def test_the_path_of_a_file_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pipeline(tmp_path)
    assert read(Path("~/pipeline.toml")).file == tmp_path / "pipeline.toml"


SECOND = '\n[[stage]]\nname = "bill"\nreads = ["invoices"]\nwrites = ["paid"]\ncommand = ["true"]\n'
RIVAL = (
    SECOND.replace('"bill"', '"audit"').replace('"invoices"', '"purchases"').replace('"paid"', '"invoices"')
)
MISTAKES = {
    "two stages that read one topic and write one topic": (
        "[expect]",
        f"{RIVAL}ordered = true\n\n[expect]",
        "[[stage]] bill and audit, which read one topic and write invoices, and only one is `ordered`",
    ),
    # By mistake: the text that is replaced in the file, its replacement, and a part of the error.
    "no name": ('name = "billing"\n', "", 'name is missing; write for example name = "billing"'),
    "a command with a NUL": (
        'command = ["true"]',
        r'command = ["true", "a\u0000b"]',
        "[[stage]] bill command[1] must be a string without a NUL character, not 'a\\x00b'",
    ),
    "a variable with a NUL": (
        'command = ["true"]',
        'command = ["true"]\n' + r'env = { KEY = "a\u0000" }',
        "[[stage]] bill env.KEY must be a string without a NUL character, not 'a\\x00'",
    ),
    "a folder with a NUL": (
        'command = ["true"]',
        'command = ["true"]\n' + r'cwd = "a\u0000"',
        "[[stage]] bill cwd must be a string without a NUL character",
    ),
    "a variable with an invalid name": (
        'command = ["true"]',
        'command = ["true"]\nenv = { "A=B" = "c" }',
        "[[stage]] bill env must hold names of variables without '=', not 'A=B'",
    ),
    "a name that is a number": ('name = "billing"', "name = 7", "name must be a string, not 7"),
    "an unknown key": (
        'name = "billing"',
        'name = "billing"\nguarante = "x"',
        'it has an unknown key: there is no key "guarante"; did you mean "guarantee"?',
    ),
    "an unknown key of a stage": (
        'command = ["true"]',
        'command = ["true"]\ninstance = 2',
        '[[stage]] bill has an unknown key: there is no key "instance"; did you mean "instances"?',
    ),
    "an unknown guarantee": (
        'name = "billing"',
        'name = "billing"\nguarantee = "exactly-twice"',
        "guarantee must be one of exactly-once, at-least-once, at-most-once, not 'exactly-twice'",
    ),
    "topics whose metrics have one name": (
        'writes = ["invoices"]',
        'writes = ["pur.chases", "pur_chases"]',
        "names the topics pur.chases and pur_chases: Kafka refuses two topics that differ only in '.' and '_'",
    ),
    "an internal topic as an output": (
        'writes = ["invoices"]',
        'writes = ["__transaction_state"]',
        "names the topic __transaction_state: Kafka uses it itself",
    ),
    "no stage": (MINIMAL, 'name = "billing"', "needs at least one [[stage]]"),
    "two stages with the same name": (
        "[inputs.purchases]",
        f"{SECOND}\n[inputs.purchases]",
        "has two stages named bill",
    ),
    "a stage without a name": ('name = "bill"\n', "", "[[stage]] 1 name is missing"),
    "a name with a slash": ('name = "bill"\n', 'name = "../bill"\n', "[[stage]] ../bill name must be letters"),
    "no command": ('command = ["true"]', "", "[[stage]] bill command is missing"),
    "an empty command": ('["true"]', "[]", "[[stage]] bill command must have at least one element"),
    "a command that is a text": ('["true"]', '"true"', "[[stage]] bill command must be a list of strings"),
    "zero instances": ('["true"]', '["true"]\ninstances = 0', "[[stage]] bill instances must be a whole number"),
    "a misspelt placeholder": (
        '["true"]',
        '["true", "--brokers={bootstrp}"]',
        '[[stage]] bill command has {bootstrp}: there is no placeholder "bootstrp"; did you mean "bootstrap"?',
    ),
    "a misspelt placeholder in the environment": (
        '["true"]',
        '["true"]\nenv = { ID = "{instnce}" }',
        '[[stage]] bill env has {instnce}: there is no placeholder "instnce"; did you mean "instance"?',
    ),
    "a misspelt placeholder in the transactional id": (
        '["true"]',
        '["true"]\ntransactional_id = "{instanc}"',
        '[[stage]] bill transactional_id has {instanc}: there is no placeholder "instanc"',
    ),
    "a variable whose value is a list": (
        '["true"]',
        '["true"]\nenv = { A = [1] }',
        "[[stage]] bill env.A must be a string, not [1]",
    ),
    "the placeholder {run} in the transactional id": (
        '["true"]',
        '["true"]\ntransactional_id = "{run}-{instance}"',
        '[[stage]] bill transactional_id has {run}: there is no placeholder "run"; there is instance',
    ),
    "an invalid pattern": (
        '["true"]',
        '["true"]\nready = "line:started ("',
        "[[stage]] bill ready is not a valid regular expression: missing )",
    ),
    "ready without line:": ('["true"]', '["true"]\nready = "up"', '[[stage]] bill ready must be "line:PATTERN"'),
    "an unknown signal": ('["true"]', '["true"]\nstop = "TERM"', "[[stage]] bill stop must be the name of a signal"),
    "a time that is too short": (
        '["true"]',
        '["true"]\nstop_within_s = 0.1',
        "[[stage]] bill stop_within_s must be a number from 1 to 300, not 0.1",
    ),
    "an unknown kind of stage": (
        'command', 'kind = "cron"\ncommand', "[[stage]] bill kind must be one of service, job, not 'cron'"),
    "a period of a stage that is no job": (
        'command', 'every_s = 5\ncommand',
        '[[stage]] bill every_s is for stages that end by themselves: add kind = "job", or remove it',
    ),
    "a period that is longer than idle_s": (
        'command', 'kind = "job"\nevery_s = 15\ncommand',
        "[[stage]] bill every_s is 15, so between two starts the stage can be silent for longer than idle_s (15 s)",
    ),
    "a wait that is shorter than the period": (
        'command', 'kind = "job"\nevery_s = 14\nworks_within_s = 9\ncommand',
        "[[stage]] bill works_within_s is 9, but the stage starts again only after every_s (14 s)",
    ),
    "a wait that is too long": (
        'command', 'works_within_s = 601\ncommand',
        "[[stage]] bill works_within_s must be a number from 1 to 600, not 601",
    ),
    "progress of nothing": ("[inputs", "[stage.progress]\n[inputs", "[[stage]] bill.progress needs exactly one of"),
    "progress of a command and a query": (
        "[inputs", '[stage.progress]\ncommand = ["x"]\nsql = "SELECT 1"\n[inputs',
        "[[stage]] bill.progress needs exactly one of command = [",
    ),
    "a query without a database": (
        "[inputs", '[stage.progress]\nsql = "SELECT 1"\n[inputs',
        "[[stage]] bill.progress needs both sql and database",
    ),
    "a progress command that is a text": (
        "[inputs", '[stage.progress]\ncommand = "./positions"\n[inputs',
        "[[stage]] bill.progress command must be a list of strings, not './positions'",
    ),
    "an unknown key of progress": (
        "[inputs", '[stage.progress]\ncommand = ["x"]\nwithin = 3\n[inputs',
        '[[stage]] bill.progress has an unknown key: there is no key "within"; did you mean "within_s"?',
    ),
    "an unknown placeholder of progress": (
        "[inputs", '[stage.progress]\ncommand = ["x", "{bootstraps}"]\n[inputs',
        "[[stage]] bill.progress command has {bootstraps}: ",
    ),
    "progress with an unknown topic": (
        "[inputs", '[stage.progress]\ncommand = ["x", "{topic:invoice}"]\n[inputs',
        "has {topic:invoice} in [[stage]] bill: ",
    ),
    "progress of a stage with a group": (
        '["true"]\n', '["true"]\ngroup = "g"\n[stage.progress]\ncommand = ["x"]\n',
        "[[stage]] bill progress is for a stage that commits no offsets, and this stage has a group",
    ),
    "progress by what differs for each instance": (
        "[inputs", '[stage.progress]\ncommand = ["x", "{data}"]\n[inputs',
        "[[stage]] bill progress has {data}, which differs for each of the 3 instances",
    ),
    "progress that is a list": (
        'command', 'progress = ["x"]\ncommand', "[[stage]] bill.progress must be a table, not ['x']"),
    "transactions that are a text": (
        '["true"]',
        '["true"]\ntransactions = "no"',
        "[[stage]] bill transactions must be true or false, not 'no'",
    ),
    "a topic that nothing writes": (
        '["purchases"]',
        '["purchases", "refunds"]',
        "reads refunds, which nothing writes: add [inputs.refunds]",
    ),
    "a misspelt topic": (
        '["purchases"]', '["purchase"]', 'reads purchase, which nothing writes: did you mean "purchases"? Or add ['),
    "inputs that no stage reads": (
        "[inputs.purchases]",
        '[inputs.purchase]\nmake = "expect.py:purchase"\n[inputs.purchases]',
        'has [inputs.purchase], which no stage reads: there is no topic "purchase"; did you mean "purchases"?',
    ),
    "inputs of a topic that a stage writes": (
        '["invoices"]',
        '["invoices", "purchases"]',
        "has [inputs.purchases], but a stage also writes this topic",
    ),
    "settings of an unknown topic": (
        "[inputs.purchases]",
        "[topics.invoice]\n[inputs.purchases]",
        'has [topics.invoice]: there is no topic "invoice"; did you mean "invoices"?',
    ),
    "a function without a file": (
        '"expect.py:purchase"',
        '"expect:purchase"',
        '[inputs.purchases] make must name a function such as "expect.py:outputs", not \'expect:purchase\'',
    ),
    "a missing file of functions": ('"expect.py:', '"expct.py:', "expct.py, which does not exist: correct the path"),
    "a missing file of inputs": (
        'make = "expect.py:purchase"',
        'file = "purchases.jsonl"',
        "[inputs.purchases] file names ",
    ),
    "inputs from a function and from a file": (
        'make = "expect.py:purchase"',
        'make = "expect.py:purchase"\nfile = "expect.py"',
        '[inputs.purchases] needs exactly one of make = "expect.py:purchase" and file = ',
    ),
    "inputs that are a text": (
        '[inputs.purchases]\nmake = "expect.py:purchase"',
        '[inputs]\npurchases = "expect.py:purchase"',
        "[inputs.purchases] must be a table, not 'expect.py:purchase'",
    ),
    "outputs and fold": (
        'outputs = "expect.py:outputs"',
        'outputs = "expect.py:outputs"\nfold = "expect.py:total"',
        "[expect] needs exactly one of outputs = ",
    ),
    "neither outputs nor fold": (
        'outputs = "expect.py:outputs"', 'correlate = "key"', "[expect] needs exactly one of outputs = "),
    "an invalid correlate": (
        'outputs = "expect.py:outputs"',
        'outputs = "expect.py:outputs"\ncorrelate = "json:id"',
        '[expect] correlate must be "json:/id", "header:NAME", "key", "content" or a function',
    ),
    "a pointer without a slash": (
        'outputs = "expect.py:outputs"',
        'outputs = "expect.py:outputs"\nignore = ["created_at"]',
        '[expect] ignore must hold JSON pointers such as "/created_at", or "header:NAME", not \'created_at\'',
    ),
    "an unknown partitioner": (
        "[inputs.purchases]",
        '[inputs.purchases]\npartitioner = "murmur3"',
        "[inputs.purchases] partitioner must be one of murmur2_random, consistent_random, murmur2, consistent, ",
    ),
    "a fold key without fold": (
        "[expect]",
        '[expect]\nfold_key = "expect.py:about"',
        "[expect] fold_key is the key of a state of `fold`, so it needs `fold`: add it, or remove fold_key",
    ),
    "compare with an unknown part": (
        "[expect]",
        '[expect]\ncompare.invoices = ["header"]',
        "compare.invoices[0] must be one of headers, timestamp_ms, partition, not 'header'",
    ),
    "compare with a text": (
        "[expect]", '[expect]\ncompare.invoices = "headers"', "compare.invoices must be a list of strings"),
    "compare with a list": (
        "[expect]", '[expect]\ncompare = ["headers"]', "compare must be a table, not ['headers']"),
    "compare with a topic that no stage writes": (
        "[expect]",
        '[expect]\ncompare.invoice = ["headers"]',
        'has invoice in `compare`, which no stage writes: there is no topic "invoice"; did you mean "invoices"?',
    ),
    "compare with a topic in final": (
        "[expect]",
        '[expect]\nfinal = ["invoices"]\ncompare.invoices = ["headers"]',
        "has invoices in both `compare` and `final`: ",
    ),
    "compare with a time stamp that brokers set": (
        "[expect]",
        """[topics.invoices.config]
"message.timestamp.type" = "LogAppendTime"
[expect]
compare.invoices = ["timestamp_ms"]""",
        "compares timestamp_ms in invoices, but the brokers set it there",
    ),
    "final with a topic that no stage writes": (
        "[expect]", '[expect]\nfinal = ["total"]', "has total in `final`, which no stage writes: there is no topic"),
    "final with a topic that a stage reads": (
        "[expect]",
        """[[stage]]
name = "count"
reads = ["invoices"]
writes = ["totals"]
command = ["true"]
[expect]
final = ["invoices"]""",
        "has invoices in `final`, which [[stage]] count reads: ",
    ),
    "final with a topic of a stage without a group": (
        "[expect]", '[expect]\nfinal = ["invoices"]', "has invoices in `final`, but [[stage]] bill has no group: "),
    "{group} without a group": (
        '["true"]', '["true", "{group}"]', "[[stage]] bill command has {group}, but the stage has no group: add it",
    ),
    "{transactional_id} without a transactional id": (
        '["true"]', '["true", "{transactional_id}"]', "bill command has {transactional_id}, but the stage has no "),
    "a placeholder in a group": ('command', 'group = "{prefix}g"\ncommand', "bill group has {prefix}: "),
    "{topic:...} in a transactional id": (
        'command', 'transactional_id = "{topic:invoices}-{instance}"\ncommand',
        "transactional_id has {topic:invoices}: ",
    ),
    "transactions = false and a transactional id": (
        'command', 'transactions = false\ntransactional_id = "b-{instance}"\ncommand',
        "[[stage]] bill has both transactions = false and a transactional_id: remove one of them",
    ),
    "a stage whose name has an accent": (
        'name = "bill"', 'name = "bé"', "name must be letters, digits, '_' and '-', not 'bé'"),
    "invalid TOML": ("[inputs.purchases]", "[inputs.purchases", " is not valid TOML: "),
}  # fmt: skip


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_an_internal_topic_of_kafka_is_no_input(topic: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"names the topic {topic}: Kafka uses it itself"):
        read_pipeline(tmp_path, WITH_OUTPUTS.replace("purchases", topic))


def test_an_input_topic_may_not_collide_with_an_output_topic(tmp_path: Path) -> None:
    text = WITH_OUTPUTS.replace('"purchases"', '"in.voices"').replace("purchases", '"in.voices"')
    with pytest.raises(UsageError, match=r"names the topics in\.voices and in_voices"):
        read_pipeline(tmp_path, text.replace('"invoices"', '"in_voices"'))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_error_for_a_mistake_names_the_file_and_the_key(mistake: str, tmp_path: Path) -> None:
    old, new, words = MISTAKES[mistake]
    text = WITH_OUTPUTS.replace(old, new, 1)
    assert text != WITH_OUTPUTS
    with pytest.raises(UsageError) as refused:
        read_pipeline(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / "pipeline.toml")) and words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("guarantee", "by", "words"),
    [
        ("at-most-once", "outputs", "has `final` and promises at-most-once"),
        ("at-least-once", "fold", "has `final` and `fold`, and promises at-least-once"),
    ],
)
def test_final_is_refused_with_a_guarantee_under_which_it_checks_nothing(
    guarantee: str, by: str, words: str, tmp_path: Path
) -> None:
    text = WITH_OUTPUTS.replace('name = "billing"\n', f'name = "billing"\nguarantee = "{guarantee}"\n', 1)
    text = text.replace('["true"]', '["true"]\ngroup = "g"').replace("outputs =", f"{by} =")
    with_final = text.replace("[expect]", '[expect]\ncorrelate = "key"\nfinal = ["invoices"]')
    with pytest.raises(UsageError, match=words):
        read_pipeline(tmp_path, with_final)
    if by == "fold":
        read_pipeline(tmp_path, with_final.replace("fold =", "outputs ="))


def test_the_error_for_a_missing_or_binary_file_names_it(tmp_path: Path) -> None:
    missing, binary = tmp_path / "pipelin.toml", tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for file, words in (
        (missing, "cannot be read: No such file"),
        (tmp_path, "cannot be read"),
        (binary, "is not valid TOML"),
    ):
        with pytest.raises(UsageError, match=f"{re.escape(str(file))} {words}"):
            read(file)
