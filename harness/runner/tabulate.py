"""From what a run left in its folder to the tables that are checked.

It is the same for a run that ended, which still knows who led what, and for one that was killed,
of which there are the journals and what lies in its brokers' folders. A run that is at rest may begin while its final
readers still read: all other journals are complete by then.
"""

import logging
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import orjson
import pyarrow.parquet as pq

from harness.promises import FETCH, FINAL_JOURNAL, HISTORY_FILE, INTERNAL_TOPICS
from harness.reasons import Reason, ReasonCode
from harness.record.events import Completed, NoEvent, parse
from harness.record.naming import operation_name
from harness.record.partitions import PartitionIds, write_partitions
from harness.record.tables import Tabulator
from harness.record.told_history import write_told
from harness.settings.test_toml import Plan
from harness.witness import FETCHED
from harness.witness.beside import capturing
from harness.witness.capture import ReplicaSource

log = logging.getLogger(__name__)

Place = tuple[str, int]


@dataclass(frozen=True)
class Ends:
    """What the cluster said of its partitions when it was at rest; empty if nobody could ask."""

    leaders: Mapping[Place, int]
    high_watermarks: Mapping[Place, int]
    compacted: Mapping[str, bool] = field(default_factory=dict)  # by topic


class GivenUp(Exception):
    """Whoever began tables does not want them any more."""


class Tabulation:
    """The tables of one run, written by a thread from `begin` on. Use it in a `with`: one that ends before `finish`
    leaves no tables.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder, self._plan = folder, plan
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tables")
        self._start_over()

    def _start_over(self) -> None:
        self._names = PartitionIds()
        self._tables = Tabulator(int(self._plan.run["id"]), self._plan.pipeline.stages, self._names)
        self._journals: queue.SimpleQueue[Path | None] = queue.SimpleQueue()  # None: there are no more
        self._begun: dict[Path, int] = {}  # how long each was
        self._writing: Future[None] | None = None
        self._given_up = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._give_up()
        self._pool.shutdown()

    def begin(self) -> None:
        """Read the journals that are there: their writers have ended, and no other than final readers will begin."""
        self._give(self._written())

    def finish(self, ends: Ends | None = None) -> None:
        """Write `history/` from the journals, and `log/` from the brokers' segments if they are there; and, where the
        run promises it, the clients' history beside them.
        """
        plan, folder = self._plan, self._folder
        asked = ends or Ends({}, {})
        planned = [topic.name for topic in plan.pipeline.topics]
        # A user's programs may have made topics themselves.
        made = () if plan.pipeline.journaled else {topic for topic, _ in asked.leaders}
        topics = sorted({*planned, *made} - {*INTERNAL_TOPICS})
        sources = replicas(folder, plan.promises.witness)
        if sources:
            told = asked.leaders, folder / "log", topics, asked.high_watermarks
            with capturing(int(plan.run["id"]), sources, *told) as capture:
                self._write_all()
                capture(self._names, self._tables.op_of)
        else:
            self._write_all()
        known = {*planned, *(table.name for table in plan.pipeline.tables)}
        write_partitions(self._names, int(plan.run["id"]), folder / "history", asked.compacted, known)
        if plan.promises.history:
            told_by = [*self._written(), *(folder / "journals").glob("nemesis.jsonl")]
            write_told(told_by, plan.pipeline.stages, folder / HISTORY_FILE)

    def _written(self) -> list[Path]:
        """The journals that are there, those of final readers last."""
        found = (path for path in (self._folder / "journals").glob("*.jsonl") if path.stem != "nemesis")
        return sorted(found, key=lambda path: (path.stem.startswith(FINAL_JOURNAL), path.stem))

    def _give(self, journals: Sequence[Path]) -> Future[None]:
        """Have the thread read these, too."""
        self._begun |= {path: path.stat().st_size for path in journals}
        for path in journals:
            self._journals.put(path)
        if self._writing is None:
            given = _given(self._journals, self._given_up)
            self._writing = self._pool.submit(
                self._tables.write, given, self._folder / "history", partial(_go_on, self._given_up)
            )
        return self._writing

    def _give_up(self) -> None:
        self._given_up.set()
        self._journals.put(None)

    def _write_all(self) -> None:
        """Give the journals that were not there at the beginning, and wait until all are read. Where one has been
        written on since, what was read of it is not all: then everything is read anew.
        """
        if longer := [path for path, size in self._begun.items() if path.stat().st_size != size]:
            log.warning("%s grew while it was being read: all journals are read again", longer[0])
            self._give_up()
            self._start_over()
        writing = self._give([path for path in self._written() if path not in self._begun])
        self._journals.put(None)
        writing.result()


def _given(journals: "queue.SimpleQueue[Path | None]", given_up: threading.Event) -> Iterator[Path]:
    """The journals, as they are given."""
    yield from iter(journals.get, None)
    _go_on(given_up)


def _go_on(given_up: threading.Event) -> None:
    """Raise `GivenUp` where nobody wants the rest."""
    if given_up.is_set():
        raise GivenUp


def tabulate(folder: Path, plan: Plan, ends: Ends | None = None) -> None:
    """The tables of a run, all at once; see `Tabulation`."""
    with Tabulation(folder, plan) as tables:
        tables.finish(ends)


def unexpected_errors(folder: Path) -> list[Reason]:
    """What the one broad except of the workers caught: errors that nobody foresaw, by operation."""
    found = []
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if b'"surprise":true' in line and line.endswith(b"\n"):
                    try:
                        event = parse(orjson.loads(line))
                    except (NoEvent, orjson.JSONDecodeError):
                        continue  # the tables count it as a line that is missing
                    if isinstance(event, Completed) and event.surprise:
                        name = operation_name(path.stem, event.op)
                        words = f"{name} met an error that nobody foresaw: {event.error}"
                        found.append(Reason(ReasonCode.UNEXPECTED_ERROR, words, name))
    return found


def rows_of(folder: Path) -> dict[str, int]:
    """How many rows each table of a run has."""
    return {path.stem: pq.read_metadata(path).num_rows for path in sorted(folder.glob("*/*.parquet"))}


def replicas(folder: Path, witness: str) -> Sequence[ReplicaSource]:
    """The data folders that the brokers of a run left behind, or what was fetched of them."""
    found = sorted((folder / (FETCHED if witness == FETCH else "brokers")).glob("*/data"))
    return [ReplicaSource(int(data.parent.name), data) for data in found if data.parent.name.isdigit()]
