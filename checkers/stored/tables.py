"""Make the shared tables: journals, broker logs and final reads, joined once for all checkers.

Each large table takes one shuffle of the recorded tables, by the key that its checks need, and is stored while the
checkers run. Small tables are made in Python (`checkers.stored.small_tables`). A checker filters the shared tables and
unnests their arrays. A checker should not need another shuffle.

`runs`              by run: facts of the run, and how it ended
`tps`               by run and tp: names, the range of the log, the ranges of the final reads
`topics`            by run and topic: the ranges of all its partitions together
`orders`            by run, partition of inputs, topic and output name: whether order is promised
`journals`          by run and journal: whether it is complete
`replicas`          by run, tp and broker: the range of its log
`batches`           by run, tp and base offset: the leader's data batches with their fates
`states`            by run and position in the transaction log: the state of a transaction, and those before
`log_entries`       by run, tp and offset: the log, the final read, acknowledged sends, deliveries, offset commits
`deliveries`        all deliveries of a record, if one of them may be wrong
`attempts`          by run and value: its send, and the positions at which it was found
`operations`        by run and op: the operation, the fates of its records, its offset commits, its claims
`inputs`            by run, tp and offset of an input: what it must lead to, and what it led to
`groups`            by run, group and tp: the first position and the last committed offset
`reader_steps`      moves of readers and senders that a check may report
`claimed_ranges`    the input ranges that operations claimed, and the starts of readers
`markers`           by run, tp and offset of a marker: its transaction in the transaction log
`log_transactions`  by run and transaction of the transaction log: its records and offset commits, by markers
`inits`             the successful initialisations of transactional ids
`revocations`       the times at which partitions were revoked from a worker
`polls`, `headers`  as recorded
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from checkers.spark.frames import checkpoint, checkpoint_or_collect, collect_small
from checkers.stored.broker_log import (
    make_batches,
    make_deliveries,
    make_log_entries,
    make_states,
    make_suspected,
)
from checkers.stored.inputs import make_claimed_ranges, make_groups, make_inputs
from checkers.stored.log_transactions import make_log_transactions, make_markers, select_markers
from checkers.stored.operations import make_attempts, make_operations
from checkers.stored.reader_steps import make_reader_steps, make_step_events
from checkers.stored.small_tables import SmallTables, make_small_tables
from checkers.stored.sources import Sources
from checkers.stored.tally import Row, Tally
from harness.model.vocabulary import Outcome

TOGETHER = 2
"""The number of tables that are computed at the same time. With a higher number, tables would only wait for their
inputs.
"""


@dataclass(frozen=True)
class Tables:
    """The shared tables. The columns of each are listed at the function that makes it."""

    suffix: ClassVar = ""
    """Suffix of the names of the checker functions that read these tables."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
    orders: DataFrame
    batches: DataFrame
    states: DataFrame
    log_entries: DataFrame
    deliveries: DataFrame
    attempts: DataFrame
    operations: DataFrame
    inputs: DataFrame
    groups: DataFrame
    reader_steps: DataFrame
    claimed_ranges: DataFrame
    inits: DataFrame
    revocations: DataFrame
    markers: DataFrame
    log_transactions: DataFrame
    journals: DataFrame
    polls: DataFrame  # as recorded: a checker joins them with a few suspected records
    headers: DataFrame  # as recorded: the batches of every replica
    replicas: DataFrame  # see `checkers.stored.small_tables.REPLICAS`
    raw: Tally  # counts of the recorded tables
    facts: Mapping[str, Sequence[Row]]  # by kind of fact: rows that are each a fact of their run


def make_tables(sources: Sources, small: SmallTables | None = None) -> Tables:
    """Compute each shared table once.

    Args:
        small: the small tables, if they exist already
    """
    small_tables = small or make_small_tables(sources)
    runs, tps, journals = small_tables.runs, small_tables.tps, small_tables.journals
    with ThreadPoolExecutor(max_workers=TOGETHER, thread_name_prefix="tables") as pool:

        def submit(*arguments: Any) -> Future[DataFrame]:
            return pool.submit(_compute, *arguments)

        pending: dict[str, Any] = {}
        pending["batches"] = batches = submit(checkpoint, make_batches, sources, tps, runs)
        pending["states"] = states = submit(checkpoint, make_states, sources, tps, runs)
        pending["markers"] = markers = submit(checkpoint, make_markers, sources, tps, states)
        step_events = submit(checkpoint, make_step_events, sources, tps)
        pending["log_entries"] = log_entries = submit(checkpoint, make_log_entries, sources, tps, batches)
        pending["attempts"] = attempts = submit(checkpoint, make_attempts, sources, log_entries)
        suspected = submit(checkpoint_or_collect, make_suspected, log_entries, runs)
        pending["deliveries"] = submit(checkpoint_or_collect, make_deliveries, sources, suspected)
        pending["operations"] = operations = submit(
            checkpoint, make_operations, sources, runs, journals, log_entries, attempts
        )
        pending["inputs"] = submit(checkpoint, make_inputs, sources, tps, log_entries, attempts, operations)
        pending["reader_steps"] = reader_steps = submit(
            checkpoint_or_collect, make_reader_steps, sources, step_events, log_entries, operations
        )
        pending["groups"] = submit(collect_small, make_groups, sources, runs, tps, log_entries, operations)
        pending["claimed_ranges"] = submit(checkpoint, make_claimed_ranges, operations, reader_steps)
        selected = submit(checkpoint_or_collect, select_markers, markers, runs)
        pending["log_transactions"] = submit(
            checkpoint, make_log_transactions, sources, runs, tps, selected, log_entries
        )
    return Tables(
        **vars(small_tables),
        **{name: future.result() for name, future in pending.items()},
        inits=sources["ops"].where(f"f = 'init' and outcome = '{Outcome.OK.value}'"),
        revocations=sources["assignments"].where("not gained").select("run", "journal", "time_ns"),
        polls=sources["polls"],
        headers=sources["batches"],
    )


def _compute(
    store: Callable[[DataFrame], DataFrame], make: Callable[..., DataFrame], *inputs: Any
) -> DataFrame:
    """Compute one table, after the tables from which it is made, and store it with `store`."""
    return store(make(*(table.result() if isinstance(table, Future) else table for table in inputs)))
