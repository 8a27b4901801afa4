"""Whether the tables of histories that were written straight to Parquet hold together.

Whoever writes them may err where a reader of lines would have said so: an outcome that is none, an operation
that one table has and another has not, or tells of otherwise. Checks look at one table at a time, and would
find nothing in what contradicts itself.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.by_key.arrays import finder
from checkers.by_key.packs import LINES
from checkers.history_tables import Batches, Table
from checkers.told_operations import EFFECTIVE
from harness.history import Isolation
from harness.history_files.schema import OUTCOMES

REQUIRED = {
    "ops": ("op", "process", "f", "outcome", "invoked"),
    "micro": ("op", "key", "value", "n", "process", "polled", "outcome"),
}
"""The columns that may not be null."""
ISOLATIONS = pa.array([one.value for one in Isolation])
SAID = pa.schema([("line", pa.int64()), ("said", pa.int64()), ("wrong", pa.int8())])
STRANGE = pa.schema([("line", pa.int64()), ("known", pa.bool_())])
WRONG = (
    "",
    f"has a row in which one of {', '.join(REQUIRED['ops'])} is null",
    f"has an outcome that is none of 0 to {len(OUTCOMES) - 1}",
    f"has an isolation that is neither {' nor '.join(ISOLATIONS.to_pylist())}",
    "has an operation that was invoked after it completed, or is below 1",
    "has an operation twice",
)
"""What may be wrong with an operation."""
UNKNOWN = "micro.parquet has records of an operation that ops.parquet has not"
OTHERWISE = (
    "micro.parquet tells another process or outcome of an operation than ops.parquet, or has records of one "
    f"whose f is none of {', '.join(EFFECTIVE.to_pylist())}"
)


def contradictions(ops: Table, micro: Table) -> dict[int, str]:
    """By run, what is wrong, with the lowest operation of all of which that is so."""
    told = ops.here(_said, SAID, ["run", *REQUIRED["ops"], "isolation"])
    order = np.argsort(told["line"].to_numpy(), kind="stable")
    line, said, wrong = (told[name].to_numpy()[order] for name in SAID.names)
    wrong = np.where((wrong == 0) & (np.diff(line, prepend=-1) == 0), len(WRONG) - 1, wrong)
    found = {
        (int(line[at]), f"ops.parquet {WRONG[wrong[at]]}")
        for at in _first_of_runs(line, np.flatnonzero(wrong))
    }
    strange = micro.here(_against(line, said), STRANGE, ["run", "op", "process", "outcome"])
    for at, known in zip(strange["line"].to_pylist(), strange["known"].to_pylist(), strict=True):
        found.add((at, OTHERWISE if known else UNKNOWN))
    return {at // LINES: f"{words} (operation {at % LINES})" for at, words in sorted(found, reverse=True)}


def _first_of_runs(line: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Of sorted lines, of the chosen the first of each run."""
    _, first = np.unique(line[chosen] // LINES, return_index=True)
    return chosen[first]


def _said(batches: Batches) -> Batches:
    """Each operation, with what micro-operations must say of it, and what is wrong with it by itself."""
    for rows in batches:
        lacks = np.zeros(len(rows), bool)
        for name in REQUIRED["ops"]:
            lacks |= rows[name].is_null().to_numpy(zero_copy_only=False)
        outcome, op = _numbers(rows, "outcome"), _numbers(rows, "op")
        isolated = pc.fill_null(pc.is_in(rows["isolation"], ISOLATIONS), True)
        isolated = pc.or_(isolated, rows["isolation"].is_null()).to_numpy(zero_copy_only=False)
        conditions = [
            lacks,
            (outcome < 0) | (outcome >= len(OUTCOMES)),
            ~isolated,
            (op < 1) | (_numbers(rows, "invoked") > op),
        ]
        effective = pc.fill_null(pc.is_in(rows["f"], EFFECTIVE), False).to_numpy(zero_copy_only=False)
        columns = [_line(rows), _code(rows, effective), np.select(conditions, [1, 2, 3, 4], 0)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, form) for column, form in zip(columns, SAID.types, strict=True)], schema=SAID
        )


def _against(line: np.ndarray, said: np.ndarray) -> Callable[[Batches], Batches]:
    """What finds, of each run, the first operation of which the rows of a batch say something else."""
    find = finder(line) if len(line) else lambda wanted: np.full(len(wanted), -1)

    def strange(batches: Batches) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            wanted = _line(rows)
            at = find(wanted)
            known = at >= 0
            differs = ~known
            differs[known] = said[at[known]] != _code(rows, np.ones(len(rows), bool))[known]
            chosen = np.flatnonzero(differs)
            first = _first_of_runs(wanted, chosen[np.argsort(wanted[chosen], kind="stable")])
            yield pa.RecordBatch.from_arrays(
                [pa.array(wanted[first]), pa.array(known[first])], schema=STRANGE
            )

    return strange


def _line(rows: pa.RecordBatch) -> np.ndarray:
    line: np.ndarray = rows["run"].to_numpy() * LINES + np.clip(_numbers(rows, "op"), 0, LINES - 1)
    return line


def _code(rows: pa.RecordBatch, effective: np.ndarray) -> np.ndarray:
    """A number for what both tables say: the same for the same, whatever wraps around."""
    code: np.ndarray = _numbers(rows, "process") * 8 + _numbers(rows, "outcome") * 2 + effective
    return code


def _numbers(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """As numbers of 64 bits; null is -1."""
    numbers: np.ndarray = pc.fill_null(rows[name], -1).to_numpy().astype(np.int64)
    return numbers
