"""Read `pipeline.toml`. Each error message is one sentence that names the file and the key."""

import re
from collections.abc import Collection
from pathlib import Path
from signal import Signals
from typing import Any

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.names import nearest, unknown
from harness.common.secrets import REDACTED
from harness.model.pipeline import CONSUMER_OFFSETS, JOB, SERVICE, TRANSACTION_STATE
from harness.model.vocabulary import Guarantee
from harness.processes.program import ProgramRules
from workloads.custom.description import (
    CONTENT,
    IGNORED_HEADER,
    JAVA_PARTITIONER,
    PARTITIONERS,
    PARTS,
    CustomStage,
    CustomTopic,
    ExpectedOutputs,
    InputSource,
    PipelineDescription,
    ProgressSource,
    UserFunction,
)
from workloads.custom.fields import TIMESTAMP_TYPE
from workloads.custom.placeholders import NAMES, PLACEHOLDER, require_known, topics_in
from workloads.custom.table import TomlTable

CORRELATIONS = ("key", CONTENT)
MOST_INSTANCES = 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
STAGE = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")
INTERNAL = frozenset(
    {
        CONSUMER_OFFSETS,
        TRANSACTION_STATE,
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""The internal topics of Kafka."""
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def read(file: Path) -> PipelineDescription:
    """Return the description in this file. Raises `UsageError`."""
    try:
        file = file.expanduser().resolve()
    except RuntimeError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    try:
        document = read_toml(file)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror or error}; `fencepost init` writes one"
        ) from error
    except ValueError as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from error
    body = TomlTable(file, "", document)
    name = body.required_text("name", '"billing"')
    if not NAME.fullmatch(name):
        raise body.error(f"must be up to 64 letters, digits, '.', '_' or '-', not {name!r}", "name")
    guarantee = _guarantee(body)
    stages = _stages(file, body)
    description = PipelineDescription(
        file,
        name,
        stages,
        {topic: _inputs(table) for topic, table in body.tables("inputs").items()},
        guarantee,
        _expect(body.table("expect")),
        {topic: _topic(table) for topic, table in body.tables("topics").items()},
    )
    body.require_all_known()
    _require_consistent(body, description)
    return description


def _guarantee(body: TomlTable) -> Guarantee:
    text = body.text("guarantee")
    names = [guarantee.value for guarantee in Guarantee]
    if text is not None and text not in names:
        raise body.error(f"must be one of {', '.join(names)}, not {text!r}", "guarantee")
    return Guarantee(text) if text else Guarantee.EXACTLY_ONCE


def _stages(file: Path, body: TomlTable) -> tuple[CustomStage, ...]:
    rows = body.get("stage")
    if not isinstance(rows, list) or not rows:
        raise body.error(
            "needs at least one [[stage]]: a program, the topics it reads and the topics it writes"
        )
    stages = tuple(_stage(file, n, row) for n, row in enumerate(rows, 1))
    names = [stage.name for stage in stages]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise body.error(f"has two stages named {min(duplicates)}: give each its own name")
    return stages


def _stage(file: Path, n: int, row: Any) -> CustomStage:
    label = row.get("name") if isinstance(row, dict) else None
    table = TomlTable(file, f"[[stage]] {label or n}", row)
    name = table.required_text("name", '"bill"')
    if not STAGE.fullmatch(name):
        raise table.error(f"must be letters, digits, '_' and '-', not {name!r}", "name")
    command = table.texts("command", example='["./billing", "--brokers", "{bootstrap}"]')
    env = table.pairs("env")
    for variable in env:
        if not variable or "=" in variable:
            raise table.error(f"must hold names of variables without '=', not {variable!r}", "env")
    transactional_id = table.text("transactional_id")
    group = table.text("group")
    for key, text in [*(("command", word) for word in command), *(("env", value) for value in env.values())]:
        require_known(table, key, text, topics=True)
        for what, value in (("group", group), ("transactional_id", transactional_id)):
            if value is None and f"{{{what}}}" in text:
                raise table.error(f"has {{{what}}}, but the stage has no {what}: add it", key)
        if REDACTED in text:
            raise table.error(
                f"has {REDACTED}, which a reproducer has in place of a secret: write a value", key
            )
    if transactional_id is not None:
        require_known(
            table, "transactional_id", transactional_id, ("instance",)
        )  # the other placeholders are not known when the run is planned
    for key in ("group", "cwd"):
        require_known(table, key, table.text(key) or "", ())
    if transactional_id is not None and not table.boolean("transactions", True):
        raise table.error("has both transactions = false and a transactional_id: remove one of them")
    stage = CustomStage(
        name=name,
        reads=table.texts("reads", example='["purchases"]'),
        writes=table.texts("writes", example='["invoices"]'),
        command=command,
        instances=table.whole_number("instances", 1, MOST_INSTANCES, 3) or 3,
        group=group,
        transactional_id=transactional_id,
        transactions=table.boolean("transactions", True),
        transaction_timeout_s=table.number("transaction_timeout_s", 1, 900, 60.0),
        ordered=table.boolean("ordered", False),
        idle_s=table.number("idle_s", 1, 300, 15.0),
        works_within_s=table.number("works_within_s", 1, 600, 0.0) or None,
        metadata_max_age_s=table.number("metadata_max_age_s", 1, 3600, 300.0),
        env=env,
        cwd=table.text("cwd"),
        kind=table.text("kind") or SERVICE,
        every_s=table.number("every_s", 0.1, 600, 0.0) or None,
        rules=_rules(table),
        progress=_progress(table),
    )
    _require_possible_kind(table, stage)
    _require_possible_progress(table, stage)
    table.require_all_known()
    return stage


def _require_possible_kind(table: TomlTable, stage: CustomStage) -> None:
    """Raise `UsageError` if the stage is of no known kind, or if `every_s` does not fit to it."""
    if stage.kind not in (SERVICE, JOB):
        raise table.error(f'must be "{SERVICE}" or "{JOB}", not {stage.kind!r}', "kind")
    if stage.every_s is None:
        return
    if stage.kind != JOB:
        raise table.error(
            f'is for stages that end by themselves: add kind = "{JOB}", or remove it', "every_s"
        )
    if stage.group is None and stage.progress is None and stage.every_s >= stage.idle_s:
        raise table.error(
            f"is {stage.every_s:g}, so the stage may write nothing for longer than idle_s ({stage.idle_s:g} s) between "
            "two starts, and would be stopped before its end: write a longer idle_s",
            "every_s",
        )
    if stage.works_within_s is not None and stage.works_within_s < stage.every_s:
        raise table.error(
            f"is {stage.works_within_s:g}, and the stage may be started again only after every_s "
            f"({stage.every_s:g} s): write a longer works_within_s, or remove it",
            "works_within_s",
        )


def _progress(stage: TomlTable) -> ProgressSource | None:
    """Read `[stage.progress]`."""
    table = stage.table("progress")
    if table is None:
        return None
    source = ProgressSource(
        table.texts("command"),
        table.text("sql"),
        table.text("database"),
        table.number("within_s", 0.1, 300, 10.0),
    )
    if bool(source.command) == (source.sql is not None):
        raise table.error(
            'needs exactly one of command = ["./positions", "{bootstrap}"] and '
            'sql = "SELECT topic, partition, next_offset FROM positions"'
        )
    if (source.sql is None) != (source.database is None):
        raise table.error(
            "needs both sql and database, which is the URL of a PostgreSQL database or the file of a SQLite database"
        )
    named = [
        *(("command", word) for word in source.command),
        ("sql", source.sql),
        ("database", source.database),
    ]
    known = [name for name in NAMES if name not in ("group", "transactional_id")]
    for key, text in named:
        require_known(table, key, text or "", known, topics=True)
        if REDACTED in (text or ""):
            raise table.error(
                f"has {REDACTED}, which a reproducer has in place of a secret: write a value", key
            )
    table.require_all_known()
    return source


def _require_possible_progress(table: TomlTable, stage: CustomStage) -> None:
    """Raise `UsageError` if the stage cannot have its `[stage.progress]`."""
    if stage.progress is None:
        return
    if stage.group is not None:
        raise table.error(
            "is for a stage that commits no offsets, and this stage has a group, whose offsets say what is processed: "
            "remove one of them",
            "progress",
        )
    used = set(PLACEHOLDER.findall(" ".join(stage.progress.texts)))
    if stage.instances > 1 and (each := used & {"instance", "data"}):
        raise table.error(
            f"has {{{min(each)}}}, which differs for each of the {stage.instances} instances, but it is called once "
            "for the stage: write a path or a name that all instances share",
            "progress",
        )


def _rules(table: TomlTable) -> ProgramRules:
    """Read how the program signals that it is ready, and how it is stopped."""
    ready = table.text("ready")
    if ready is not None and not ready.startswith("line:"):
        raise table.error('must be "line:PATTERN", where PATTERN matches a line of its output', "ready")
    pattern = ready.removeprefix("line:") if ready else None
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise table.error(f"is not a valid regular expression: {error}", "ready") from error
    stop = table.text("stop") or "SIGTERM"
    if stop not in Signals.__members__:
        raise table.error(f"must be the name of a signal, such as SIGTERM, not {stop!r}", "stop")
    return ProgramRules(
        ready=pattern,
        ready_within_s=table.number("ready_within_s", 1, 600, 60.0),
        stop_signal=stop,
        stop_within_s=table.number("stop_within_s", 1, 300, 30.0),
    )


def _inputs(table: TomlTable) -> InputSource:
    inputs = InputSource(
        table.function("make"),
        table.path("file"),
        table.number("share", 0.001, 1000, 1.0),
        table.text("partitioner") or JAVA_PARTITIONER,
    )
    if inputs.partitioner not in PARTITIONERS:
        raise table.error(
            f"must be one of {', '.join(PARTITIONERS)}, not {inputs.partitioner!r}", "partitioner"
        )
    if (inputs.make is None) == (inputs.file is None):
        raise table.error('needs exactly one of make = "expect.py:purchase" and file = "purchases.jsonl"')
    table.require_all_known()
    return inputs


def _topic(table: TomlTable) -> CustomTopic:
    topic = CustomTopic(table.whole_number("partitions", 1, 64, None), table.pairs("config"))
    table.require_all_known()
    return topic


def _expect(table: TomlTable | None) -> ExpectedOutputs | None:
    if table is None:
        return None
    outputs, fold = table.function("outputs"), table.function("fold")
    if (outputs is None) == (fold is None):
        raise table.error('needs exactly one of outputs = "expect.py:outputs" and fold = "expect.py:total"')
    ignore = table.texts("ignore")
    for ignored in ignore:
        if not ignored.startswith(("/", IGNORED_HEADER)):
            raise table.error(
                f'must hold JSON pointers such as "/created_at", or "header:NAME", not {ignored!r}', "ignore"
            )
    fold_key = table.function("fold_key")
    if fold_key is not None and fold is None:
        raise table.error(
            "is the key of a state of `fold`, so it needs `fold`: add it, or remove fold_key", "fold_key"
        )
    compare = table.table("compare")
    expect = ExpectedOutputs(
        outputs,
        fold,
        _correlate(table),
        ignore,
        table.texts("final"),
        fold_key,
        {} if compare is None else {topic: _parts(compare, topic) for topic in compare},
    )
    table.require_all_known()
    return expect


def _parts(table: TomlTable, topic: str) -> tuple[str, ...]:
    """Read the parts of the outputs in a topic that are compared."""
    parts = table.texts(topic, example='["headers"]')
    for part in parts:
        if part not in PARTS:
            raise table.error(f"must hold parts of an output: {unknown('part', part, PARTS)}", topic)
    return parts


def _correlate(table: TomlTable) -> str | UserFunction:
    text = table.text("correlate") or CONTENT
    kind, colon, rest = text.partition(":")
    if text in CORRELATIONS or (kind == "header" and rest) or (kind == "json" and rest.startswith("/")):
        return text
    if kind.endswith(".py") and colon:
        return table.as_function("correlate", text)
    raise table.error(
        f'must be "json:/id", "header:NAME", "key", "content" or a function such as "expect.py:about", not {text!r}',
        "correlate",
    )


def _require_consistent(body: TomlTable, description: PipelineDescription) -> None:
    """Raise `UsageError` if two parts of the file contradict each other."""
    written = {topic for stage in description.stages for topic in stage.writes}
    read = {topic for stage in description.stages for topic in stage.reads}
    fed = set(description.inputs)
    for topic in sorted(read | written | fed):
        if not TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise body.error(
                f"names the topic {topic!r}: Kafka accepts only letters, digits, '.', '_' and '-'"
            )
    _require_possible_topics(body, read | written, fed)
    for stage in description.stages:
        for key, topics in (("reads", stage.reads), ("writes", stage.writes)):
            if len(set(topics)) < len(topics):
                raise body.error(f"has a topic twice in {key} of [[stage]] {stage.name}: remove one")
    _require_distinct_outputs(body, description)
    expect = description.expect
    allows_repeats = description.guarantee is not Guarantee.EXACTLY_ONCE
    if expect and expect.fold and expect.correlate == CONTENT and allows_repeats:
        raise body.error(
            f"promises {description.guarantee.value} and uses `fold`, so a repeated input changes the content of every "
            'later output: join outputs to inputs in another way, for example with correlate = "json:/id"'
        )
    _require_compared(body, description)
    _require_final(body, description)
    for topic in sorted(read - written - fed):
        suggestion = nearest(topic, written | fed)
        question = f'did you mean "{suggestion}"? Or ' if suggestion else ""
        raise body.error(
            f'reads {topic}, which nothing writes: {question}add [inputs.{topic}] with make = "expect.py:NAME"'
        )
    for topic in sorted(fed - read):
        raise body.error(
            f"has [inputs.{topic}], which no stage reads: {unknown('topic', topic, sorted(read))}"
        )
    for topic in sorted(fed & written):
        raise body.error(f"has [inputs.{topic}], but a stage also writes this topic: remove one of the two")
    for stage in description.stages:
        texts = (*stage.command, *stage.env.values(), *(stage.progress.texts if stage.progress else ()))
        for topic in sorted(topics_in(texts) - read - written):
            raise body.error(
                f"has {{topic:{topic}}} in [[stage]] {stage.name}: {unknown('topic', topic, sorted(read | written))}"
            )
    for topic in sorted(set(description.topics) - read - written):
        raise body.error(f"has [topics.{topic}]: {unknown('topic', topic, sorted(read | written))}")


def _require_distinct_outputs(body: TomlTable, description: PipelineDescription) -> None:
    """Raise `UsageError` if it is not known by which of two stages an output is made, and only one promises order."""
    for number, stage in enumerate(description.stages):
        for other in description.stages[:number]:
            shared = sorted(set(stage.writes) & set(other.writes))
            if stage.ordered != other.ordered and shared and set(stage.reads) & set(other.reads):
                raise body.error(
                    f"has [[stage]] {other.name} and {stage.name}, which read one topic and write {shared[0]}, and "
                    "only one is `ordered`: nothing shows which of them made an output; let them write different topics"
                )


def _require_compared(body: TomlTable, description: PipelineDescription) -> None:
    """Raise `UsageError` if the topics in `compare` cannot have compared parts."""
    written = {topic for stage in description.stages for topic in stage.writes}
    expect = description.expect
    for topic, parts in expect.compare.items() if expect else ():
        if topic not in written:
            suggestion = unknown("topic", topic, sorted(written))
            raise body.error(f"has {topic} in `compare`, which no stage writes: {suggestion}")
        if expect and topic in expect.final:
            raise body.error(
                f"has {topic} in both `compare` and `final`: of the last record of a key only the value is compared; "
                "remove the topic from one of them"
            )
        settings = description.topics.get(topic, CustomTopic())
        if "timestamp_ms" in parts and settings.config.get(TIMESTAMP_TYPE) == "LogAppendTime":
            raise body.error(
                f"compares timestamp_ms in {topic}, but the brokers set it there, because the topic has "
                f"{TIMESTAMP_TYPE} = LogAppendTime: remove one of the two"
            )


def _require_possible_topics(body: TomlTable, topics: Collection[str], fed: Collection[str]) -> None:
    """Raise `UsageError` for topics that Kafka does not create, or that only Kafka writes."""
    for topic in sorted({*topics, *fed} & INTERNAL):
        raise body.error(
            f"names the topic {topic}: Kafka uses it itself, so no pipeline can: name another topic"
        )
    by_metric: dict[str, str] = {}
    for topic in sorted({*topics, *fed}):
        other = by_metric.setdefault(topic.replace(".", "_"), topic)
        if other != topic:
            raise body.error(
                f"names the topics {other} and {topic}: Kafka refuses two topics that differ only in '.' and '_', "
                "because their metrics would have the same name: rename one of them"
            )


def _require_final(body: TomlTable, description: PipelineDescription) -> None:
    """Raise `UsageError` if the topics in `final` cannot be checked."""
    written = {topic for stage in description.stages for topic in stage.writes}
    expect, promised = description.expect, description.guarantee
    if expect and expect.final and promised is Guarantee.AT_MOST_ONCE:
        raise body.error(
            "has `final` and promises at-most-once, which permits the loss of a key's last input: remove `final`"
        )
    if expect and expect.final and expect.fold and promised is Guarantee.AT_LEAST_ONCE:
        raise body.error(
            "has `final` and `fold`, and promises at-least-once: an input that takes effect twice changes the last "
            "record, so it cannot be checked; remove `final`, or use `outputs` if repeated inputs change nothing"
        )
    for topic in expect.final if expect else ():
        if topic not in written:
            suggestion = unknown("topic", topic, sorted(written))
            raise body.error(f"has {topic} in `final`, which no stage writes: {suggestion}")
        for stage in description.stages:
            if topic in stage.reads:
                raise body.error(
                    f"has {topic} in `final`, which [[stage]] {stage.name} reads: only the last record of a key would "
                    "be checked there, so the outputs of this stage could not be; remove the topic from `final`"
                )
        for stage in description.stages:
            if topic in stage.writes and stage.group is None:
                raise body.error(
                    f"has {topic} in `final`, but [[stage]] {stage.name} has no group: it is not known which inputs "
                    "the last record of a key must include"
                )
