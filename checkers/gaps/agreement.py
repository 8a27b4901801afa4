"""Gap rules about recorded tables that do not agree, or that have a row twice which can be there only once.

If two tables disagree, one of them is wrong, and nothing shows which. So no finding from them is proof, and the run is
unknown. If one table only lacks rows that the other one counts, evidence is lost: the run is unknown, and an absence
from the table proves nothing. `COMPARISONS` has the sentences. The functions below compare the tables with PyArrow,
while Spark works. `checkers.gaps.facts` has the rules over shared tables (`AGREEMENTS`).
"""

import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from checkers.gaps.rule import Fact, GapRule, Row, RunEvidence
from checkers.spark.frames import local_rows
from checkers.stored.sources import Sources, read_columns
from harness.common.wording import join_words
from harness.model.vocabulary import SENTINEL_VALUE, Outcome, Role
from harness.results.reasons import ReasonCode


@dataclass(frozen=True)
class TableComparison:
    """A sentence about recorded tables that do not agree. A function below finds its rows."""

    name: str
    places: tuple[str, ...]  # the recorded tables that state the fact; may have columns of a row in them
    text: str  # the sentence
    lost: bool = False  # the first place only lacks rows

    @property
    def rule(self) -> GapRule[RunEvidence]:
        """The rule about the rows that were found."""
        return GapRule(
            self.name,
            lambda evidence: [row for row in evidence.facts.contradictions if row["rule"] == self.name],
            self.text,
            subject=self.text,
            tables=self.places,
            code=ReasonCode.INCOMPLETE_EVIDENCE if self.lost else ReasonCode.CONTRADICTORY_EVIDENCE,
            only_new=self.lost,
        )


COMPARISONS = (
    TableComparison("rows-twice", ("{table}",), "the table {table} has {count:row} twice"),
    TableComparison(
        "copies-differ",
        ("batches",),
        "replicas in the table batches have one checksum and different contents for {count:batch/batches}",
    ),
    TableComparison("impossible-rows", ("{table}",), "the table {table} has {what}: {count:row}"),
    TableComparison(
        "operations-missing",
        ("ops", "{table}"),
        "the table ops lacks operations of which the table {table} has {count:row}",
        lost=True,
    ),
    TableComparison("numbers-twice", ("{table}",), "the table {table} has rows twice in {count:operation}"),
    TableComparison(
        "numbers-missing", ("{table}",), "the table {table} lacks rows in {count:operation}", lost=True
    ),
    TableComparison(
        "readers-differ",
        ("polls", "journals", "stages"),
        "the tables polls, journals and stages do not agree on the role or the isolation level of {journal}",
    ),
    *(
        TableComparison(
            name,
            ("{table}", "journals"),
            "the table {table} has {count:row} of journal {journal}, which had {had}",
            lost,
        )
        for name, lost in (("journal-rows-added", False), ("journal-rows-missing", True))
    ),
    TableComparison(
        "partitions-missing",
        ("partitions", "{table}"),
        "the table partitions lacks partitions that the table {table} names: {partitions}",
        lost=True,
    ),
    TableComparison(
        "topics-of-sends-differ",
        ("sends", "partitions"),
        "the tables sends and partitions name different topics: {count:row}",
    ),
    TableComparison(
        "topics-of-stages-differ",
        ("{table}", "partitions", "stages"),
        "the tables {table}, partitions and stages name different topics: {count:row}",
    ),
    TableComparison(
        "groups-differ",
        ("claims", "ops"),
        "the tables claims and ops name different groups for {count:operation}",
    ),
    TableComparison(
        "replica-missing",
        ("replicas", "batches"),
        "the table replicas lacks the replica of {partition} on broker {broker}, which has batches",
        lost=True,
    ),
    TableComparison(
        "expected-numbers",
        ("expected",),
        "the table expected has rows twice, or lacks rows, of {count:input}",
    ),
    TableComparison(
        "journal-missing",
        ("journals", "{table}"),
        "the table journals lacks journal {journal}, which the table {table} names",
        lost=True,
    ),
    TableComparison(
        "stages-differ",
        ("{table}", "{other}"),
        "the tables {table} and {other} name different stages or groups for {names}",
    ),
    TableComparison(
        "names-differ-in-offsets",
        ("offsets", "ops"),
        "the tables offsets and ops name different operations for {count:offset commit}",
    ),
    TableComparison(
        "sentinels-differ",
        ("ends", "records"),
        "the table ends has the sentinel of {partition} at offset {end}, and the table records has it at {found}",
    ),
)
RULES = tuple(each.rule for each in COMPARISONS)


@dataclass(frozen=True)
class Disagreement:
    """Facts on which recorded tables of one run do not agree."""

    run: int
    rule: str  # the name of a comparison
    columns: Row  # what its sentence says


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


def _negative(*names: str) -> pc.Expression:
    """Return the condition that one of the columns is below 0."""
    conditions = [pc.field(name) < 0 for name in names]
    return reduce(operator.or_, conditions)


_producer, _epoch, _control, _marker = (
    pc.field(name) for name in ("producer_id", "epoch", "control", "marker")
)
_tp, _offset, _next, _sentinel = (pc.field(name) for name in ("tp", "offset", "next", "sentinel_offset"))
_outcome, _returned, _transactional = (pc.field(name) for name in ("outcome", "return_ns", "transactional"))
_base, _last = pc.field("base_offset"), pc.field("last_offset")
_span = pc.add(pc.subtract(_last, _base), 1)
IMPOSSIBLE: Sequence[tuple[str, Sequence[str], str, pc.Expression]] = (
    (
        "batches",
        ("producer_id", "control", "base_sequence"),
        "data batches of a producer without a sequence number",
        (_producer >= 0) & ~_control & (pc.field("base_sequence") < 0),
    ),
    (
        "batches",
        ("producer_id", "epoch"),
        "batches with a producer id or an epoch, but not both",
        # Kafka ignores the epoch of a batch without a producer id, and @platformatic/kafka writes 0 there.
        ((_producer >= 0) & (_epoch < 0)) | ((_producer < 0) & (_epoch > 0)),
    ),
    (
        "batches",
        ("producer_id", "transactional"),
        "transactional batches without a producer id",
        _transactional & ~(_producer >= 0),
    ),
    (
        "batches",
        ("control", "marker"),
        "data batches with the type of a marker",
        _marker.is_valid() & ~_control,
    ),
    (
        "batches",
        ("control", "transactional"),
        "markers that are not transactional",
        _control & ~_transactional,
    ),
    ("batches", ("last_offset", "base_offset"), "batches that end before they begin", _last < _base),
    (
        "batches",
        ("base_offset", "last_offset", "count"),
        "batches with more records than offsets",
        pc.field("count") > _span,
    ),
    (
        "ops",
        ("call_ns", "commit_ns"),
        "operations whose commit began before they did",
        pc.field("commit_ns") < pc.field("call_ns"),
    ),
    (
        "ops",
        ("commit_ns", "return_ns"),
        "operations that returned before their commit began",
        _returned < pc.field("commit_ns"),
    ),
    (
        "ops",
        ("outcome",),
        "operations with an unknown outcome",
        ~_outcome.isin([outcome.value for outcome in Outcome]),
    ),
    (
        "sends",
        ("acked", "offset", "tp"),
        "acknowledged positions of records that were not acknowledged",
        (_offset.is_valid() | _tp.is_valid()) & ~pc.field("acked"),
    ),
    ("claims", ("first", "next"), "ranges that end before they begin", _next < pc.field("first")),
    ("sends", ("tp", "offset"), "offsets without a partition", _offset.is_valid() & _tp.is_null()),
    (
        "ops",
        ("outcome", "return_ns"),
        "operations that ended and did not return",
        (_outcome != Outcome.INFO.value) & _returned.is_null(),
    ),
    (
        "ops",
        ("outcome", "fenced"),
        "operations that succeeded and were fenced",
        (_outcome == Outcome.OK.value) & pc.field("fenced"),
    ),
    (
        "ops",
        ("f", "asked", "transactional_id"),
        "transactions without a transactional id",
        (pc.field("f") == "txn") & pc.field("asked").is_valid() & pc.field("transactional_id").is_null(),
    ),
    (
        "records",
        ("value", "sentinel"),
        "sentinels that do not have the value of one, or the other way round",
        pc.starts_with(pc.field("value"), SENTINEL_VALUE) != pc.field("sentinel"),
    ),
    (
        "expected",
        ("output_name", "adds"),
        "rows with neither or both of an output name and an amount",
        pc.field("output_name").is_valid() == pc.field("adds").is_valid(),
    ),
    (
        "offsets",
        ("committed", "metadata"),
        "offset commits of which a part is missing",
        pc.field("committed").is_valid() != pc.field("metadata").is_valid(),
    ),
    # Where nothing writes sentinels, the last entry of an empty partition is at -1, and its reader has read nothing.
    (
        "ends",
        ("sentinel_offset", "next"),
        "negative offsets",
        (_sentinel < 0) & ((_sentinel < -1) | (_next != 0)),
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
"""Table, columns, and a condition that is true for no row that a run writes. A condition that is null is not true."""


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
    return [(each.run, ("contradiction", {"rule": each.rule, **each.columns})) for each in found]


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
        yield Disagreement(row["run"], "copies-differ", {"count": row["count_all"]})


def _twice(s: Sources) -> Found:
    for table, keys in UNIQUE:
        if table not in s:
            continue
        counts: dict[int, int] = defaultdict(int)
        rows = _counted(_read_table(s, table, keys), ["run", *keys])
        for row in rows.filter(pc.greater(rows["count_all"], 1)).to_pylist():
            counts[row["run"]] += row["count_all"] - 1
        for run, count in counts.items():
            yield Disagreement(run, "rows-twice", {"table": table, "count": count})


def _impossible(s: Sources) -> Found:
    for table, names, what, condition in IMPOSSIBLE:
        if table not in s:
            continue
        counts: dict[int, int] = defaultdict(int)
        for part in read_columns(s[table], ["run", *names]):
            for row in _counted(part.filter(condition), ["run"]).to_pylist():
                counts[row["run"]] += row["count_all"]
        for run, count in counts.items():
            yield Disagreement(run, "impossible-rows", {"table": table, "what": what, "count": count})


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
            yield Disagreement(run, "operations-missing", {"table": table, "count": count})
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
    for condition, rule in ((twice, "numbers-twice"), (pc.less(count, due), "numbers-missing")):
        for row in _counted(rows.filter(condition), ["run"]).to_pylist():
            yield Disagreement(row["run"], rule, {"table": table, "count": row["count_all"]})


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
            yield Disagreement(row["run"], "readers-differ", {"journal": row["journal"]})


def _assignments(s: Sources) -> Found:
    counted = _counted(_read_table(s, "assignments", ["journal"]), ["run", "journal"]).to_pylist()
    counts = {(row["run"], row["journal"]): row["count_all"] for row in counted}
    yield from _by_journal("assignments", counts, local_rows(s["journals"]))


def _by_journal(table: str, counts: Mapping[tuple[int, str], int], journals: Sequence[Row]) -> Found:
    """Compare the number of rows of a table with the number that each journal had."""
    for journal in journals:
        had, count = journal[table], counts.get((journal["run"], journal["journal"]), 0)
        if had is not None and had != count:
            rule = "journal-rows-missing" if count < had else "journal-rows-added"
            columns = {"table": table, "count": count, "journal": journal["journal"], "had": had}
            yield Disagreement(journal["run"], rule, columns)


def _unknown_partitions(s: Sources) -> Found:
    known = {(row["run"], row["tp"]) for row in local_rows(s["partitions"])}
    for table, names in PARTITIONS:
        for name in names if table in s else ():
            rows = _counted(_read_table(s, table, [name]), ["run", name]).to_pylist()
            stray = {(row["run"], row[name]) for row in rows if row[name] is not None} - known
            for run in sorted({run for run, _ in stray}):
                numbers = [str(tp) for of_run, tp in sorted(stray) if of_run == run]
                columns = {"table": table, "partitions": join_words(numbers[:5])}
                yield Disagreement(run, "partitions-missing", columns)


def _topics(s: Sources) -> Found:
    """Compare the topic of each send with that of its partition, and the partitions of stages with their topics."""
    topics = {(row["run"], row["tp"]): row["topic"] for row in local_rows(s["partitions"])}
    sends = _read_table(s, "sends", ["topic", "tp"])
    wrong: dict[tuple[int, str], int] = defaultdict(int)
    for row in _counted(sends.filter(pc.is_valid(sends["tp"])), ["run", "topic", "tp"]).to_pylist():
        if topics.get((row["run"], row["tp"]), row["topic"]) != row["topic"]:
            wrong[row["run"], "sends"] += row["count_all"]
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
                wrong[row["run"], table] += row["count_all"]
    for (run, table), count in sorted(wrong.items()):
        rule = "topics-of-sends-differ" if table == "sends" else "topics-of-stages-differ"
        yield Disagreement(run, rule, {"table": table, "count": count})


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
        yield Disagreement(row["run"], "groups-differ", {"count": row["count_all"]})


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
            yield Disagreement(row["run"], "replica-missing", {"partition": name, "broker": row["broker"]})


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
        yield Disagreement(row["run"], "expected-numbers", {"count": row["count_all"]})


def _stages(s: Sources) -> Found:
    """Compare the stage and group of operations, assignments and expected outputs with the journals and stages."""
    groups = {(row["run"], row["stage"]): row["group"] for row in local_rows(s["stages"])}
    stages = {(row["run"], row["journal"]): row["stage"] for row in local_rows(s["journals"])}
    wrong: dict[tuple[int, str, str], set[str]] = defaultdict(set)
    for table, names in (("ops", ["journal", "stage", "group"]), ("assignments", ["journal", "group"])):
        for row in _counted(_read_table(s, table, names), ["run", *names]).to_pylist():
            journal = row["run"], row["journal"]
            if journal not in stages:
                columns = {"journal": row["journal"], "table": table}
                yield Disagreement(row["run"], "journal-missing", columns)
                continue
            stage = row["run"], stages[journal]
            if row.get("stage", stage[1]) != stage[1]:
                wrong[row["run"], table, "journals"].add(row["journal"])
            elif stage in groups and row["group"] not in (None, groups[stage]):
                wrong[row["run"], table, "stages"].add(row["journal"])
    for row in _counted(
        _read_table(s, "expected", ["stage", "group"]), ["run", "stage", "group"]
    ).to_pylist():
        if row["group"] != groups.get((row["run"], row["stage"]), row["group"]):
            wrong[row["run"], "expected", "stages"].add(row["stage"])
    for (run, table, other), names_of in sorted(wrong.items()):
        columns = {"table": table, "other": other, "names": join_words(sorted(names_of)[:5])}
        yield Disagreement(run, "stages-differ", columns)


def _names(s: Sources) -> Found:
    """Compare the operation of an offset commit with its metadata."""
    if "offsets" not in s:
        return
    commits = _read_table(s, "offsets", ["op", "metadata"])
    commits = commits.filter(pc.is_valid(commits["op"]))
    named = commits.join(_read_table(s, "ops", ["op", "name"]), ["run", "op"])
    differs = named.filter(pc.fill_null(pc.not_equal(named["metadata"], named["name"]), False))
    for row in _counted(differs, ["run"]).to_pylist():
        yield Disagreement(row["run"], "names-differ-in-offsets", {"count": row["count_all"]})


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
            columns = {"partition": names.get(key), "end": end["sentinel_offset"], "found": max(offsets[key])}
            yield Disagreement(end["run"], "sentinels-differ", columns)
