"""Rules about facts that two places of the evidence state, and about rows that can be there only once.

If two places disagree, one of them is wrong, and nothing shows which. So no finding from them is proof, and the run is
unknown. If one place only lacks rows that the other one counts, evidence is lost: the run is unknown, and an absence
from the table proves nothing. There are two kinds of rules:

- `AGREEMENTS`: a condition on a row of a shared table. `checkers.checking.facts` counts the rows in its one pass.
- the functions of `recorded_contradictions`: they compare the recorded tables with PyArrow, while Spark works.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.checking.run_facts import EvidenceCounts, Fact, MissingEvidence
from checkers.spark.frames import local_rows
from checkers.stored.broker_log import COMPLETE, PREPARED
from checkers.stored.sources import Sources, read_columns
from checkers.stored.tally import Row
from harness.model.vocabulary import SENTINEL_VALUE, Outcome, Role
from harness.results.wording import join_words, plural


@dataclass(frozen=True)
class Agreement:
    """A condition for which no run leaves a row of a shared table, because two places would disagree."""

    name: str  # of the count
    table: str  # a field of `checkers.stored.tables.Tables`
    where: str  # Spark SQL over its columns; null counts as false
    places: tuple[str, ...]  # the recorded tables that state the fact
    text: str  # the sentence; `{count}` and `{partition}`, or the number of rows
    lost: bool = False  # the first place only lacks rows


_ROWS = "{count} of {partition}"
AGREEMENTS = (
    *(
        Agreement(
            f"{name}_twice", "log_entries", f"{name}_twice", (table,), f"the table {table} has {_ROWS} twice"
        )
        for name, table in (("log", "batches"), ("record", "records"), ("commit", "offsets"))
    ),
    Agreement(
        "commit_of_another",
        "log_entries",
        "commit is not null and held and (commit.producer_id != producer_id or commit.epoch != epoch "
        "or commit.transactional != (fate != 'plain'))",
        ("offsets", "batches"),
        f"the tables offsets and batches name different producers, epochs or transactions for {_ROWS}",
    ),
    Agreement(
        "commit_without_batch",
        "log_entries",
        "commit is not null and logged and not held",
        ("batches", "offsets"),
        f"the table offsets has offset commits where the table batches has no batch: {_ROWS}",
        lost=True,
    ),
    Agreement(
        "completed_partitions",
        "states",
        f"state in {COMPLETE} and size(tps) > 0",
        ("transactions",),
        "the table transactions has complete transactions that still have partitions: {rows}",
    ),
    Agreement(
        "preparations_differ",
        "states",
        f"state in {PREPARED} and before.state = 'Ongoing' and (before.producer_id != producer_id "
        "or array_sort(before.tps) != array_sort(tps))",
        ("transactions",),
        "two states of a transaction in the table transactions do not agree on its producer or partitions: {rows}",
    ),
    Agreement(
        "partial_states",
        "states",
        "state is null or state != 'Tombstone' and (producer_id is null or epoch is null or tps is null)",
        ("transactions",),
        "the table transactions has states of which a part is missing: {rows}",
    ),
    Agreement("ops_twice", "operations", "twice", ("ops",), "the table ops has {rows} twice"),
    Agreement(
        "send_of_another",
        "operations",
        "exists(records, r -> not startswith(r.value, concat(operation.name, ':')))",
        ("sends", "ops"),
        "the table sends gives records to operations that their values do not name: {operations}",
    ),
    Agreement("sent_twice", "attempts", "twice", ("sends",), "the table sends has {rows} twice"),
    Agreement(
        "sources_differ",
        "attempts",
        # A program may copy headers of Fencepost into other topics. If the digest differs, `corrupt` finds it.
        "exists(positions, p -> p.topic = send.topic and p.correlation_key is null and p.digest = send.digest and not ("
        "coalesce(p.output_name, '') = coalesce(send.output_name, '') and array_sort(coalesce(p.inputs, array())) = "
        "array_sort(coalesce(send.inputs, array()))))",
        ("sends", "records"),
        "the tables sends and records name different inputs or output names for {records}",
    ),
)
"""Rules over shared tables. Their names are counts of `checkers.checking.facts`."""
BY_PARTITION = frozenset({"log_entries"})
"""The tables whose rows are counted by partition."""


def conditions_of(table: str) -> dict[str, str]:
    """Return the conditions of the rules over a shared table, by name."""
    return {rule.name: rule.where for rule in AGREEMENTS if rule.table == table}


def add_contradictions(facts: EvidenceCounts, missing: MissingEvidence) -> None:
    """Note every contradiction of one run. This is the last step, because it leaves out gaps that are known."""
    for rule in AGREEMENTS:
        if rule.table in BY_PARTITION:
            counts = [(facts.name(tp), row.get(rule.name)) for tp, row in sorted(facts.partitions.items())]
        else:
            counts = [("", facts.numbers[rule.name])]
        for partition, count in counts:
            if count:
                nouns = {"rows": "row", "records": "record", "operations": "operation"}
                words = {name: plural(count, noun) for name, noun in nouns.items()}
                sentence = rule.text.format(count=plural(count, "offset"), partition=partition, **words)
                _note(missing, rule.name, sentence, rule.places, rule.lost)
    for row in facts.contradictions:
        _note(missing, row["text"], row["text"], row["places"], row["lost"])


def _note(missing: MissingEvidence, name: str, sentence: str, places: Sequence[str], lost: bool) -> None:
    """Note a contradiction, or a gap in the first place that is not known yet."""
    if not lost:
        missing.add_contradiction(name, sentence, *places)
    elif places[0] not in missing.tables:
        missing.add(name, sentence, *places)


# Recorded tables


@dataclass(frozen=True)
class Disagreement:
    """Facts on which two recorded tables of one run do not agree."""

    run: int
    places: tuple[str, ...]  # the recorded tables that state the fact
    text: str
    lost: bool = False  # the first place only lacks rows


Found = Iterator[Disagreement]

UNIQUE: Sequence[tuple[str, Sequence[str]]] = (
    ("partitions", ("tp",)),
    ("partitions", ("topic", "partition")),
    ("stages", ("stage", "in_topic")),
    ("journals", ("journal",)),
    ("claims", ("op", "tp")),
    ("assignments", ("journal", "process", "time_ns", "gained", "tp")),
    ("ends", ("journal", "isolation", "tp")),
    ("replicas", ("broker", "tp")),
    ("batches", ("broker", "tp", "base_offset")),
    ("transactions", ("log_tp", "log_offset")),
)
"""Tables, and the columns that only one row may share."""
INDEXED = ("polls", "sends")
"""Tables with a column `n`, which numbers the rows of each operation from 0."""
BY_JOURNAL = ("polls", "sends", "claims", "assignments")
"""Tables whose rows each journal has counted."""
PARTITIONS: Sequence[tuple[str, Sequence[str]]] = (
    *(
        (table, ("tp",))
        for table in ("claims", "polls", "records", "ends", "assignments", "expected", "sends")
    ),
    *((table, ("tp",)) for table in ("batches", "replicas")),
    ("transactions", ("log_tp",)),
    ("offsets", ("log_tp", "tp")),
)
"""Tables with numbers of partitions, which the table `partitions` has."""
_Condition = Callable[[pa.Table], Any]


def _less(lower: str, upper: str) -> _Condition:
    """Return the condition that the column `lower` is below the column `upper`."""
    return lambda t: pc.less(t[lower], t[upper])


def _negative(*names: str) -> _Condition:
    """Return the condition that one of the columns is below 0."""

    def condition(t: pa.Table) -> Any:
        below = [pc.fill_null(pc.less(t[name], 0), False) for name in names]
        for more in below[1:]:
            below[0] = pc.or_(below[0], more)
        return below[0]

    return condition


def _has_producer(t: pa.Table) -> Any:
    return pc.greater_equal(t["producer_id"], 0)


IMPOSSIBLE: Sequence[tuple[str, Sequence[str], str, _Condition]] = (
    (
        "batches",
        ("producer_id", "control", "base_sequence"),
        "data batches of a producer without a sequence number",
        lambda t: pc.and_(pc.and_(_has_producer(t), pc.invert(t["control"])), pc.less(t["base_sequence"], 0)),
    ),
    (
        "batches",
        ("producer_id", "epoch"),
        "batches with a producer id or an epoch, but not both",
        lambda t: pc.not_equal(_has_producer(t), pc.greater_equal(t["epoch"], 0)),
    ),
    (
        "batches",
        ("producer_id", "transactional"),
        "transactional batches without a producer id",
        lambda t: pc.and_(t["transactional"], pc.invert(_has_producer(t))),
    ),
    (
        "batches",
        ("control", "marker"),
        "data batches with the type of a marker",
        lambda t: pc.and_(pc.is_valid(t["marker"]), pc.invert(t["control"])),
    ),
    (
        "batches",
        ("control", "transactional"),
        "markers that are not transactional",
        lambda t: pc.and_(t["control"], pc.invert(t["transactional"])),
    ),
    (
        "batches",
        ("last_offset", "base_offset"),
        "batches that end before they begin",
        _less("last_offset", "base_offset"),
    ),
    (
        "batches",
        ("base_offset", "last_offset", "count"),
        "batches with more records than offsets",
        lambda t: pc.greater(t["count"], pc.add(pc.subtract(t["last_offset"], t["base_offset"]), 1)),
    ),
    (
        "ops",
        ("call_ns", "commit_ns"),
        "operations whose commit began before they did",
        _less("commit_ns", "call_ns"),
    ),
    (
        "ops",
        ("commit_ns", "return_ns"),
        "operations that returned before their commit began",
        _less("return_ns", "commit_ns"),
    ),
    (
        "ops",
        ("outcome",),
        "operations with an unknown outcome",
        lambda t: pc.invert(pc.is_in(t["outcome"], pa.array([outcome.value for outcome in Outcome]))),
    ),
    (
        "sends",
        ("acked", "offset", "tp"),
        "acknowledged positions of records that were not acknowledged",
        lambda t: pc.and_(pc.or_(pc.is_valid(t["offset"]), pc.is_valid(t["tp"])), pc.invert(t["acked"])),
    ),
    ("claims", ("first", "next"), "ranges that end before they begin", _less("next", "first")),
    (
        "sends",
        ("tp", "offset"),
        "offsets without a partition",
        lambda t: pc.and_(pc.is_valid(t["offset"]), pc.is_null(t["tp"])),
    ),
    (
        "ops",
        ("outcome", "return_ns"),
        "operations that ended and did not return",
        lambda t: pc.and_(pc.not_equal(t["outcome"], Outcome.INFO.value), pc.is_null(t["return_ns"])),
    ),
    (
        "ops",
        ("outcome", "fenced"),
        "operations that succeeded and were fenced",
        lambda t: pc.and_(pc.equal(t["outcome"], Outcome.OK.value), t["fenced"]),
    ),
    (
        "ops",
        ("f", "asked", "transactional_id"),
        "transactions without a transactional id",
        lambda t: pc.and_(
            pc.and_(pc.equal(t["f"], "txn"), pc.is_valid(t["asked"])), pc.is_null(t["transactional_id"])
        ),
    ),
    (
        "records",
        ("value", "sentinel"),
        "sentinels that do not have the value of one, or the other way round",
        lambda t: pc.not_equal(pc.starts_with(t["value"], SENTINEL_VALUE), t["sentinel"]),
    ),
    (
        "expected",
        ("output_name", "adds"),
        "rows with neither or both of an output name and an amount",
        lambda t: pc.equal(pc.is_valid(t["output_name"]), pc.is_valid(t["adds"])),
    ),
    (
        "offsets",
        ("committed", "metadata"),
        "offset commits of which a part is missing",
        lambda t: pc.not_equal(pc.is_valid(t["committed"]), pc.is_valid(t["metadata"])),
    ),
    # Where nothing writes sentinels, the last entry of an empty partition is at -1, and its reader has read nothing.
    (
        "ends",
        ("sentinel_offset", "next"),
        "negative offsets",
        lambda t: pc.and_(
            _negative("sentinel_offset")(t),
            pc.or_(pc.less(t["sentinel_offset"], -1), pc.not_equal(t["next"], 0)),
        ),
    ),
    *(
        (table, names, "negative offsets", _negative(*names))
        for table, names in (
            ("claims", ("first", "next")),
            ("polls", ("offset",)),
            ("records", ("offset",)),
            ("sends", ("offset",)),
            ("expected", ("offset",)),
            ("batches", ("base_offset",)),
            ("offsets", ("log_offset", "committed")),
            ("transactions", ("log_offset",)),
        )
    ),
)
"""Table, columns, and a condition that holds for no row that a run writes."""


def recorded_contradictions(s: Sources) -> list[tuple[int, Fact]]:
    """Compare the recorded tables with each other: the contradictions, by run."""
    rules = (
        _twice,
        _copies,
        _topics,
        _groups,
        _impossible,
        _by_operation,
        _assignments,
        _unknown_partitions,
        _replicas,
        _expected,
        _stages,
        _names,
        _sentinels,
    )
    found = (each for rule in rules for each in rule(s))
    return [(each.run, ("contradiction", vars(each))) for each in found]


def _counted(table: pa.Table, keys: Sequence[str], *aggregates: tuple[str, str]) -> pa.Table:
    return table.group_by(list(keys)).aggregate([*aggregates, ([], "count_all")])


def _read_table(s: Sources, table: str, names: Sequence[str]) -> pa.Table:
    """Read the columns of a table, with the column `run`."""
    return pa.concat_tables(read_columns(s[table], ["run", *names]), promote_options="default")


CONTENT = (
    *("last_offset", "count", "producer_id", "epoch", "base_sequence", "transactional"),
    *("control", "marker", "coordinator_epoch", "max_timestamp_ms"),
)
"""Columns of a batch that its checksum covers."""


def _copies(s: Sources) -> Found:
    """Compare the copies of each batch on several replicas. Where the checksums are equal, all they cover is equal."""
    if "batches" not in s:
        return
    keys = ["run", "tp", "base_offset", "crc"]
    contents = _counted(_read_table(s, "batches", [*keys[1:], *CONTENT]), [*keys, *CONTENT])
    counted = _counted(contents.drop_columns(["count_all"]), keys)
    for row in _counted(counted.filter(pc.greater(counted["count_all"], 1)), ["run"]).to_pylist():
        text = "replicas in the table batches have one checksum and different contents for "
        yield Disagreement(row["run"], ("batches",), text + plural(row["count_all"], "batch", "batches"))


def _twice(s: Sources) -> Found:
    for table, keys in UNIQUE:
        if table not in s:
            continue
        counts: dict[int, int] = defaultdict(int)
        rows = _counted(_read_table(s, table, keys), ["run", *keys])
        for row in rows.filter(pc.greater(rows["count_all"], 1)).to_pylist():
            counts[row["run"]] += row["count_all"] - 1
        for run, count in counts.items():
            yield Disagreement(run, (table,), f"the table {table} has {plural(count, 'row')} twice")


def _impossible(s: Sources) -> Found:
    for table, names, what, condition in IMPOSSIBLE:
        if table not in s:
            continue
        counts: dict[int, int] = defaultdict(int)
        for part in read_columns(s[table], ["run", *names]):
            matches = part.filter(pc.fill_null(condition(part), False))
            for row in _counted(matches, ["run"]).to_pylist():
                counts[row["run"]] += row["count_all"]
        for run, count in counts.items():
            yield Disagreement(run, (table,), f"the table {table} has {what}: {plural(count, 'row')}")


def _by_operation(s: Sources) -> Found:
    """Compare polls, sends and claims with their operations, and count their rows by journal."""
    operations = _read_table(s, "ops", ["op", "journal"])
    recorded = local_rows(s["journals"])
    for table in ("polls", "sends", "claims"):
        indexed = (("n", "count_distinct"), ("n", "max")) if table in INDEXED else ()
        names = ("n", "role", "promised") if table == "polls" else ("n",) if indexed else ()
        counted, readers = [], []
        for part in read_columns(s[table], ["run", "op", *names]):
            counted.append(_counted(part, ["run", "op"], *indexed))
            if table == "polls":
                readers.append(_counted(part, ["run", "op", "role", "promised"]))
        sums = [("count_all", "sum"), *((("n_count_distinct", "sum"), ("n_max", "max")) if indexed else ())]
        merged = pa.concat_tables(counted).group_by(["run", "op"]).aggregate(sums)
        rows = merged.join(operations, ["run", "op"])
        for run, count in _sums(rows.filter(pc.is_null(rows["journal"])), "count_all_sum"):
            text = f"the table ops lacks operations of which the table {table} has {plural(count, 'row')}"
            yield Disagreement(run, ("ops", table), text, lost=True)
        of_journals = rows.filter(pc.is_valid(rows["journal"]))
        if indexed:
            yield from _gaps(table, of_journals)
        if readers:
            yield from _readers(pa.concat_tables(readers).join(operations, ["run", "op"]), s)
        counts = of_journals.group_by(["run", "journal"]).aggregate([("count_all_sum", "sum")]).to_pylist()
        by_journal = {(row["run"], row["journal"]): row["count_all_sum_sum"] for row in counts}
        yield from _by_journal(table, by_journal, recorded)


def _sums(table: pa.Table, column: str) -> Iterator[tuple[int, int]]:
    """Yield each run with the sum of a column."""
    for row in table.group_by(["run"]).aggregate([(column, "sum")]).to_pylist():
        yield row["run"], row[f"{column}_sum"]


def _gaps(table: str, rows: pa.Table) -> Found:
    """Find operations whose rows are not numbered from 0, each once and without gaps."""
    count, distinct, due = rows["count_all_sum"], rows["n_count_distinct_sum"], pc.add(rows["n_max_max"], 1)
    twice = pc.or_(pc.not_equal(count, distinct), pc.greater(distinct, due))
    for condition, what, lost in (
        (twice, "has rows twice", False),
        (pc.less(count, due), "lacks rows", True),
    ):
        for row in _counted(rows.filter(condition), ["run"]).to_pylist():
            text = f"the table {table} {what} in {plural(row['count_all'], 'operation')}"
            yield Disagreement(row["run"], (table,), text, lost)


def _readers(rows: pa.Table, s: Sources) -> Found:
    """Compare the role of polls, and the isolation level of a worker's, with the journals and the stages."""
    journals = {(row["run"], row["journal"]): row for row in local_rows(s["journals"])}
    promised = {(row["run"], row["stage"]): row["promised"] for row in local_rows(s["stages"])}
    for row in _counted(rows, ["run", "journal", "role", "promised"]).to_pylist():
        journal = journals.get((row["run"], row["journal"]))
        if journal is None:
            continue  # it is missing, which is noted elsewhere
        level = promised.get((row["run"], journal["stage"]), row["promised"])
        if row["role"] != journal["role"] or (row["role"] == Role.WORKER.value and row["promised"] != level):
            places = ("polls", "journals", "stages")
            text = f"the tables {join_words(places)} do not agree on the role or the isolation level of "
            yield Disagreement(row["run"], places, text + row["journal"])


def _assignments(s: Sources) -> Found:
    counted = _counted(_read_table(s, "assignments", ["journal"]), ["run", "journal"]).to_pylist()
    counts = {(row["run"], row["journal"]): row["count_all"] for row in counted}
    yield from _by_journal("assignments", counts, local_rows(s["journals"]))


def _by_journal(table: str, counts: Mapping[tuple[int, str], int], journals: Sequence[Row]) -> Found:
    """Compare the number of rows of a table with the number that each journal had."""
    for journal in journals:
        had, count = journal[table], counts.get((journal["run"], journal["journal"]), 0)
        if had is not None and had != count:
            text = f"the table {table} has {plural(count, 'row')} of journal {journal['journal']}, which had {had}"
            yield Disagreement(journal["run"], (table, "journals"), text, lost=count < had)


def _unknown_partitions(s: Sources) -> Found:
    known = {(row["run"], row["tp"]) for row in local_rows(s["partitions"])}
    for table, names in PARTITIONS:
        for name in names if table in s else ():
            rows = _counted(_read_table(s, table, [name]), ["run", name]).to_pylist()
            stray = {(row["run"], row[name]) for row in rows if row[name] is not None} - known
            for run in sorted({run for run, _ in stray}):
                numbers = [str(tp) for of_run, tp in sorted(stray) if of_run == run]
                text = f"the table partitions lacks partitions that the table {table} names: "
                yield Disagreement(run, ("partitions", table), text + join_words(numbers[:5]), lost=True)


def _topics(s: Sources) -> Found:
    """Compare the topic of each send with that of its partition, and the partitions of stages with their topics."""
    topics = {(row["run"], row["tp"]): row["topic"] for row in local_rows(s["partitions"])}
    sends = _read_table(s, "sends", ["topic", "tp"])
    wrong: dict[tuple[int, tuple[str, ...]], int] = defaultdict(int)
    for row in _counted(sends.filter(pc.is_valid(sends["tp"])), ["run", "topic", "tp"]).to_pylist():
        if topics.get((row["run"], row["tp"]), row["topic"]) != row["topic"]:
            wrong[row["run"], ("sends", "partitions")] += row["count_all"]
    reads: dict[tuple[int, str | None], set[str]] = defaultdict(set)
    for row in local_rows(s["stages"]):
        reads[row["run"], row["stage"]].add(row["in_topic"])
    stages = {(row["run"], row["journal"]): row["stage"] for row in local_rows(s["journals"])}
    claims = _counted(_read_table(s, "claims", ["op", "tp"]), ["run", "op", "tp"])
    claims = claims.join(_read_table(s, "ops", ["op", "journal"]), ["run", "op"]).select(
        ["run", "journal", "tp"]
    )
    for table, rows in (
        ("claims", claims),
        ("assignments", _read_table(s, "assignments", ["journal", "tp"])),
    ):
        for row in _counted(rows, ["run", "journal", "tp"]).to_pylist():
            own = reads.get((row["run"], stages.get((row["run"], row["journal"]))))
            topic = topics.get((row["run"], row["tp"]))
            if own is not None and topic is not None and topic not in own:
                wrong[row["run"], (table, "partitions", "stages")] += row["count_all"]
    for (run, places), count in sorted(wrong.items()):
        text = f"the tables {join_words(places)} name different topics: {plural(count, 'row')}"
        yield Disagreement(run, places, text)


def _groups(s: Sources) -> Found:
    """Compare the group of each claim with that of its operation."""
    claims = _counted(_read_table(s, "claims", ["op", "group"]), ["run", "op", "group"])
    operations = _read_table(s, "ops", ["op", "group", "name"]).rename_columns({"group": "own"})
    both = claims.join(operations, ["run", "op"])
    both = both.filter(pc.is_valid(both["name"]))
    equal = pc.if_else(
        pc.is_null(both["group"]),
        pc.is_null(both["own"]),
        pc.fill_null(pc.equal(both["group"], both["own"]), False),
    )
    for row in _counted(both.filter(pc.invert(equal)).drop_columns(["count_all"]), ["run"]).to_pylist():
        text = f"the tables claims and ops name different groups for {plural(row['count_all'], 'operation')}"
        yield Disagreement(row["run"], ("claims", "ops"), text)


def _replicas(s: Sources) -> Found:
    """Find replicas that have batches and are not listed."""
    if "batches" not in s:
        return
    listed = {(row["run"], row["tp"], row["broker"]) for row in local_rows(s["replicas"])}
    names = {
        (row["run"], row["tp"]): f"{row['topic']}/{row['partition']}" for row in local_rows(s["partitions"])
    }
    for row in _counted(_read_table(s, "batches", ["tp", "broker"]), ["run", "tp", "broker"]).to_pylist():
        if (row["run"], row["tp"], row["broker"]) not in listed:
            name = names.get((row["run"], row["tp"]), f"partition {row['tp']}")
            text = (
                f"the table replicas lacks the replica of {name} on broker {row['broker']}, which has batches"
            )
            yield Disagreement(row["run"], ("replicas", "batches"), text, lost=True)


def _expected(s: Sources) -> Found:
    """Find inputs whose expected outputs are not numbered from 0, each once and without gaps."""
    keys = ["run", "tp", "offset"]
    rows = _read_table(s, "expected", ["tp", "offset", "n"])
    counted = _counted(rows.filter(pc.is_valid(rows["n"])), keys, ("n", "count_distinct"), ("n", "max"))
    whole = pc.and_(
        pc.equal(counted["count_all"], counted["n_count_distinct"]),
        pc.equal(counted["count_all"], pc.add(counted["n_max"], 1)),
    )
    for row in _counted(counted.filter(pc.invert(whole)), ["run"]).to_pylist():
        text = f"the table expected has rows twice, or lacks rows, of {plural(row['count_all'], 'input')}"
        yield Disagreement(row["run"], ("expected",), text)


def _stages(s: Sources) -> Found:
    """Compare the stage and group of operations, assignments and expected outputs with the journals and stages."""
    groups = {(row["run"], row["stage"]): row["group"] for row in local_rows(s["stages"])}
    stages = {(row["run"], row["journal"]): row["stage"] for row in local_rows(s["journals"])}
    wrong: dict[tuple[int, tuple[str, ...]], set[str]] = defaultdict(set)
    for table, names in (("ops", ["journal", "stage", "group"]), ("assignments", ["journal", "group"])):
        for row in _counted(_read_table(s, table, names), ["run", *names]).to_pylist():
            journal = row["run"], row["journal"]
            if journal not in stages:
                text = f"the table journals lacks journal {row['journal']}, which the table {table} names"
                yield Disagreement(row["run"], ("journals", table), text, lost=True)
                continue
            stage = row["run"], stages[journal]
            if row.get("stage", stage[1]) != stage[1]:
                wrong[row["run"], (table, "journals")].add(row["journal"])
            elif stage in groups and row["group"] not in (None, groups[stage]):
                wrong[row["run"], (table, "stages")].add(row["journal"])
    for row in _counted(
        _read_table(s, "expected", ["stage", "group"]), ["run", "stage", "group"]
    ).to_pylist():
        if row["group"] != groups.get((row["run"], row["stage"]), row["group"]):
            wrong[row["run"], ("expected", "stages")].add(row["stage"])
    for (run, places), names_of in sorted(wrong.items()):
        text = f"the tables {join_words(places)} name different stages or groups for "
        yield Disagreement(run, places, text + join_words(sorted(names_of)[:5]))


def _names(s: Sources) -> Found:
    """Compare the operation of an offset commit with its metadata."""
    if "offsets" not in s:
        return
    commits = _read_table(s, "offsets", ["op", "metadata"])
    commits = commits.filter(pc.is_valid(commits["op"]))
    named = commits.join(_read_table(s, "ops", ["op", "name"]), ["run", "op"])
    differs = named.filter(pc.fill_null(pc.not_equal(named["metadata"], named["name"]), False))
    for row in _counted(differs, ["run"]).to_pylist():
        text = f"the tables offsets and ops name different operations for {plural(row['count_all'], 'offset commit')}"
        yield Disagreement(row["run"], ("offsets", "ops"), text)


def _sentinels(s: Sources) -> Found:
    """Compare the sentinels in records with the ends of the final readers."""
    records = _read_table(s, "records", ["tp", "offset", "sentinel"])
    rows = records.filter(records["sentinel"]).to_pylist()
    offsets: dict[tuple[int, int], set[int]] = defaultdict(set)
    for row in rows:
        offsets[row["run"], row["tp"]].add(row["offset"])
    names = {
        (row["run"], row["tp"]): f"{row['topic']}/{row['partition']}" for row in local_rows(s["partitions"])
    }
    for end in local_rows(s["ends"]):
        key = end["run"], end["tp"]
        if end["role"] == Role.OBSERVER.value or key not in offsets or end["sentinel_offset"] is None:
            continue
        if not 0 <= end["sentinel_offset"] <= max(offsets[key]):
            found = max(offsets[key])
            text = f"the table ends has the sentinel of {names.get(key)} at offset {end['sentinel_offset']}"
            yield Disagreement(
                end["run"], ("ends", "records"), f"{text}, and the table records has it at {found}"
            )
