"""Read `pipeline.toml`. Each error message is one sentence that names the file and the key."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.toml_tables import Text, WrongTable, convert_table, matches
from harness.common.wording import REDACTED, nearest, unknown
from harness.model.pipeline import CONSUMER_OFFSETS, JOB, TRANSACTION_STATE
from harness.model.vocabulary import Guarantee
from workloads.custom.description import (
    CONTENT,
    IGNORED_HEADER,
    JAVA_PARTITIONER,
    CustomStage,
    CustomTopic,
    ExpectedOutputs,
    InputSource,
    Part,
    Partitioner,
    PipelineDescription,
    ProgressSource,
    UserFunction,
)
from workloads.custom.functions import TIMESTAMP_TYPE
from workloads.custom.names import NAMES, PLACEHOLDER, TOPIC_PLACEHOLDER, topics_in

T = TypeVar("T")
CORRELATIONS = ("key", CONTENT)
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


@dataclass(frozen=True)
class PipelineFile:
    """The tables of the file."""

    name: Annotated[
        str,
        matches(
            "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
            "up to 64 letters, digits, '.', '_' or '-'",
            example='"billing"',
        ),
    ]
    stage: Any = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    expect: Any = None
    topics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InputsTable:
    """`[inputs.TOPIC]`."""

    make: Text | None = None
    file: Text | None = None
    share: Annotated[float, Meta(ge=0.001, le=1000)] = 1.0
    partitioner: Partitioner = JAVA_PARTITIONER


@dataclass(frozen=True)
class ExpectTable:
    """`[expect]`."""

    outputs: Text | None = None
    fold: Text | None = None
    correlate: Text = CONTENT
    ignore: tuple[Text, ...] = ()
    final: tuple[Text, ...] = ()
    fold_key: Text | None = None
    compare: Mapping[str, Annotated[tuple[Part, ...], Meta(min_length=1, examples=['["headers"]'])]] = field(
        default_factory=dict
    )


class TomlTable:
    """One table of a file. `where` names the table in messages: `[[stage]] bill`. It is empty for the file itself."""

    def __init__(self, file: Path, where: str, body: Any) -> None:
        self._file, self._where, self.body = file, where, body

    def error(self, problem: str, key: str = "") -> UsageError:
        """Return an error about a key, or about the table."""
        where = " ".join(part for part in (self._where, key) if part)
        return UsageError(f"{self._file}: {where or 'it'} {problem}")

    def read(self, kind: type[T], texts: str = "") -> T:
        """Return what the table describes. Raises `UsageError`.

        `texts` is the key of a table of texts in which numbers and booleans become texts.
        """
        body = self.body
        if isinstance(body, dict) and isinstance(body.get(texts), dict):
            body = body | {texts: {name: _as_text(value) for name, value in body[texts].items()}}
        try:
            return convert_table(body, kind)
        except WrongTable as error:
            raise self.error(error.problem, error.key) from error

    def stage(self, where: str, body: object) -> "TomlTable":
        """Return the table of one [[stage]]."""
        return TomlTable(self._file, where, body)

    def inner(self, key: str) -> "TomlTable":
        """Return the table under a key."""
        where = f"{self._where}.{key}" if self._where else f"[{key}]"
        return TomlTable(self._file, where, self.body[key])

    def tables(self, key: str) -> "Iterator[tuple[str, TomlTable]]":
        """Yield the tables in the table under a key, with their names."""
        for name, body in self.body.get(key, {}).items():
            yield name, TomlTable(self._file, f"[{key}.{name}]", body)

    def function(self, key: str, text: str | None) -> UserFunction | None:
        """Return the function that `FILE.py:NAME` names; the file must exist. None: the key is missing."""
        if text is None:
            return None
        path, colon, name = text.rpartition(":")
        if not colon or not path.endswith(".py") or not name.isidentifier():
            raise self.error(f'must name a function such as "expect.py:outputs", not {text!r}', key)
        file = self.path(key, path)
        assert file is not None
        return UserFunction(file, name)

    def path(self, key: str, text: str | None) -> Path | None:
        """Return the path of a file that exists. None: the key is missing."""
        if text is None:
            return None
        file = self._file.parent / Path(text).expanduser()
        if not file.is_file():
            raise self.error(f"names {file}, which does not exist: correct the path", key)
        return file


def _as_text(value: object) -> object:
    """Return a number or a boolean as text, and any other value as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


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
    table = TomlTable(file, "", document)
    body = table.read(PipelineFile)
    description = PipelineDescription(
        file,
        body.name,
        _stages(table, body.stage),
        {topic: _inputs(inner) for topic, inner in table.tables("inputs")},
        body.guarantee,
        None if body.expect is None else _expect(table.inner("expect")),
        {topic: inner.read(CustomTopic, texts="config") for topic, inner in table.tables("topics")},
    )
    _require_consistent(table, description)
    return description


def _stages(body: TomlTable, rows: Any) -> tuple[CustomStage, ...]:
    if not isinstance(rows, list) or not rows:
        raise body.error(
            "needs at least one [[stage]]: a program, the topics it reads and the topics it writes"
        )
    stages = tuple(_stage(body, n, row) for n, row in enumerate(rows, 1))
    names = [stage.name for stage in stages]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise body.error(f"has two stages named {min(duplicates)}: give each its own name")
    return stages


def _stage(body: TomlTable, n: int, row: Any) -> CustomStage:
    label = row.get("name") if isinstance(row, dict) else None
    table = body.stage(f"[[stage]] {label or n}", row)
    if isinstance(row, dict) and "progress" in row:
        _require_possible_source(table.inner("progress"))
    stage = table.read(CustomStage, texts="env")
    for variable in stage.env:
        if not variable or "=" in variable:
            raise table.error(f"must hold names of variables without '=', not {variable!r}", "env")
    words = [
        *(("command", word) for word in stage.command),
        *(("env", value) for value in stage.env.values()),
    ]
    for key, text in words:
        _require_known(table, key, text, topics=True)
        for what, value in (("group", stage.group), ("transactional_id", stage.transactional_id)):
            if value is None and f"{{{what}}}" in text:
                raise table.error(f"has {{{what}}}, but the stage has no {what}: add it", key)
        if REDACTED in text:
            raise table.error(
                f"has {REDACTED}, which a reproducer has in place of a secret: write a value", key
            )
    if stage.transactional_id is not None:
        _require_known(
            table, "transactional_id", stage.transactional_id, ("instance",)
        )  # the other placeholders are not known when the run is planned
    _require_known(table, "group", stage.group or "", ())
    _require_known(table, "cwd", stage.cwd or "", ())
    if stage.transactional_id is not None and not stage.transactions:
        raise table.error("has both transactions = false and a transactional_id: remove one of them")
    _require_possible_rules(table, stage)
    _require_possible_kind(table, stage)
    _require_possible_progress(table, stage)
    return stage


def _require_possible_kind(table: TomlTable, stage: CustomStage) -> None:
    """Raise `UsageError` if `every_s` contradicts another key."""
    if stage.every_s is None:
        return
    if stage.kind != JOB:
        raise table.error(
            f'is for stages that end by themselves: add kind = "{JOB}", or remove it', "every_s"
        )
    if stage.group is None and stage.progress is None and stage.every_s >= stage.idle_s:
        raise table.error(
            f"is {stage.every_s:g}, so between two starts the stage can be silent for longer than idle_s "
            f"({stage.idle_s:g} s), and would be stopped too early: write a longer idle_s",
            "every_s",
        )
    if stage.works_within_s is not None and stage.works_within_s < stage.every_s:
        raise table.error(
            f"is {stage.works_within_s:g}, but the stage starts again only after every_s "
            f"({stage.every_s:g} s): write a longer works_within_s, or remove it",
            "works_within_s",
        )


def _require_possible_source(table: TomlTable) -> None:
    """Raise `UsageError` unless `[stage.progress]` is a command or a query."""
    source = table.read(ProgressSource)
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
        _require_known(table, key, text or "", known, topics=True)
        if REDACTED in (text or ""):
            raise table.error(
                f"has {REDACTED}, which a reproducer has in place of a secret: write a value", key
            )


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


def _require_possible_rules(table: TomlTable, stage: CustomStage) -> None:
    """Raise `UsageError` if the pattern of `ready` is no regular expression, or `stop` is no signal."""
    try:
        re.compile(stage.rules.ready or "")
    except re.error as error:
        raise table.error(f"is not a valid regular expression: {error}", "ready") from error
    if stage.stop not in Signals.__members__:
        raise table.error(f"must be the name of a signal, such as SIGTERM, not {stage.stop!r}", "stop")


def _inputs(table: TomlTable) -> InputSource:
    inputs = table.read(InputsTable)
    if (inputs.make is None) == (inputs.file is None):
        raise table.error('needs exactly one of make = "expect.py:purchase" and file = "purchases.jsonl"')
    return InputSource(
        table.function("make", inputs.make),
        table.path("file", inputs.file),
        inputs.share,
        inputs.partitioner,
    )


def _expect(table: TomlTable) -> ExpectedOutputs:
    expect = table.read(ExpectTable)
    if (expect.outputs is None) == (expect.fold is None):
        raise table.error('needs exactly one of outputs = "expect.py:outputs" and fold = "expect.py:total"')
    for ignored in expect.ignore:
        if not ignored.startswith(("/", IGNORED_HEADER)):
            raise table.error(
                f'must hold JSON pointers such as "/created_at", or "header:NAME", not {ignored!r}', "ignore"
            )
    if expect.fold_key is not None and expect.fold is None:
        raise table.error(
            "is the key of a state of `fold`, so it needs `fold`: add it, or remove fold_key", "fold_key"
        )
    return ExpectedOutputs(
        table.function("outputs", expect.outputs),
        table.function("fold", expect.fold),
        _correlate(table, expect.correlate),
        expect.ignore,
        expect.final,
        table.function("fold_key", expect.fold_key),
        expect.compare,
    )


def _correlate(table: TomlTable, text: str) -> str | UserFunction:
    kind, colon, rest = text.partition(":")
    if text in CORRELATIONS or (kind == "header" and rest) or (kind == "json" and rest.startswith("/")):
        return text
    if kind.endswith(".py") and colon and (function := table.function("correlate", text)):
        return function
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
    """Raise `UsageError` if two stages can make the same output, and only one is `ordered`."""
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


def _require_known(
    table: TomlTable, key: str, text: str, known: Collection[str] = NAMES, topics: bool = False
) -> None:
    """Raise `UsageError` for a placeholder that is misspelled or not allowed here.

    If `topics` is true, the text may also name topics. They are checked later, when all stages are known.
    """
    for name in PLACEHOLDER.findall(text):
        if name.startswith(TOPIC_PLACEHOLDER) and topics:
            continue
        if name.startswith(TOPIC_PLACEHOLDER) or (
            name not in known and (name in NAMES or nearest(name, known))
        ):
            raise table.error(f"has {{{name}}}: {unknown('placeholder', name, known)}", key)
