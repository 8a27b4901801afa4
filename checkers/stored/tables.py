"""The shared tables: what the three witnesses say, brought together once, for every checker.

Each of the large ones is one shuffle of the raw tables, by the key that its checks need, and is kept while the
checkers run; the small ones are made here (`checkers.stored.small_tables`). A checker filters them and takes their
lists apart; it makes no shuffle of its own unless it must.

`runs`        by run: what is known of it, and what its end looked like
`tps`         by run and tp: names, what the log covers, how far the final readers came
`batches`     by run, tp and base offset: the leader's data batches with their fate
`states`      by run and place in the transaction log: the states of each transaction, with those before
`log_entries`   by run, tp and offset: what the log holds there, the record that the final reader found
              there, the sends acknowledged there, who was given it, the offset commit in it
`deliveries` the deliveries of which one may be wrong
`attempts`      by run and name of the value: who announced it, and where it stands
`operations`  by run and op: the operation, the fates of its records, its offset commits, its claims
`inputs`      by run, tp and offset of an input: what it must lead to, and what it led to
`groups`      by run, group and tp: the first position and the last committed offset
`markers`     by run, tp and offset of a marker: its transaction in the transaction log
`log_transactions`       by run and transaction of the transaction log: its records and offset commits, by markers
`inits`       the initialisations of transactional ids
`revocations`      the moments at which partitions were taken from a worker
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from checkers.spark.checkpoint import checkpoint, checkpoint_or_collect, collect_small
from checkers.stored.attempts import make_attempts
from checkers.stored.inputs import make_claimed_ranges, make_groups, make_inputs
from checkers.stored.log_entries import make_deliveries, make_log_entries, make_suspected
from checkers.stored.log_transactions import make_log_transactions, make_markers, select_markers
from checkers.stored.operations import make_operations
from checkers.stored.producers import make_batches, make_states
from checkers.stored.reader_steps import make_reader_steps, make_step_events
from checkers.stored.small_tables import SmallTables, make_small_tables
from checkers.stored.sources import Sources
from checkers.stored.tally import Row, Tally
from harness.model.vocabulary import Outcome

TOGETHER = 2
"""Tables that are computed at the same time. More would only wait for those before them."""


@dataclass(frozen=True)
class Tables:
    """The shared tables. The columns of each are listed at the function that makes it."""

    suffix: ClassVar = ""
    """Of the functions that look at them."""

    runs: DataFrame
    tps: DataFrame
    topics: DataFrame
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
    polls: DataFrame  # as recorded: to be joined with a few records that are suspected
    headers: DataFrame  # as recorded: every replica's batches
    replicas: DataFrame  # see `checkers.stored.small_tables.REPLICAS`
    raw: Tally  # what is counted of the recorded tables
    facts: Mapping[str, Sequence[Row]]  # by kind, small tables of which each row is a fact of its run


def make_tables(sources: Sources, small: SmallTables | None = None) -> Tables:
    """Compute each shared table once. `small`: the small tables, if they are known already."""
    known = small or make_small_tables(sources)
    runs, tps, journals = known.runs, known.tps, known.journals
    with ThreadPoolExecutor(max_workers=TOGETHER, thread_name_prefix="tables") as pool:

        def begin(*parts: Any) -> Future[DataFrame]:
            return pool.submit(_made, *parts)

        coming: dict[str, Any] = {}
        coming["batches"] = batches = begin(checkpoint, make_batches, sources, tps, runs)
        coming["states"] = states = begin(checkpoint, make_states, sources, runs)
        coming["markers"] = markers = begin(checkpoint, make_markers, sources, tps, states)
        points = begin(checkpoint, make_step_events, sources, tps)
        coming["log_entries"] = positions = begin(checkpoint, make_log_entries, sources, tps, batches)
        coming["attempts"] = values = begin(checkpoint, make_attempts, sources, positions)
        suspected = begin(checkpoint_or_collect, make_suspected, positions, runs)
        coming["deliveries"] = begin(checkpoint_or_collect, make_deliveries, sources, suspected)
        coming["operations"] = operations = begin(
            checkpoint, make_operations, sources, runs, journals, positions, values
        )
        coming["inputs"] = begin(checkpoint, make_inputs, sources, tps, positions, values, operations)
        coming["reader_steps"] = moves = begin(
            checkpoint_or_collect, make_reader_steps, sources, points, positions, operations
        )
        coming["groups"] = begin(collect_small, make_groups, sources, runs, tps, positions, operations)
        coming["claimed_ranges"] = begin(checkpoint, make_claimed_ranges, operations, moves)
        selected = begin(checkpoint_or_collect, select_markers, markers, runs)
        coming["log_transactions"] = begin(
            checkpoint, make_log_transactions, sources, runs, tps, selected, positions
        )
    return Tables(
        **vars(known),
        **{name: future.result() for name, future in coming.items()},
        inits=sources["ops"].where(f"f = 'init' and outcome = '{Outcome.OK.value}'"),
        revocations=sources["assignments"].where("not gained").select("run", "journal", "time_ns"),
        polls=sources["polls"],
        headers=sources["batches"],
    )


def _made(kept: Callable[[DataFrame], DataFrame], make: Callable[..., DataFrame], *of: Any) -> DataFrame:
    """Compute one table, after the tables that it is made from."""
    return kept(make(*(one.result() if isinstance(one, Future) else one for one in of)))
