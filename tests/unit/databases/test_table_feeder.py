"""The feeder of a table: what it writes down of its transactions is what became of them."""

from pathlib import Path
from random import Random

import orjson

from harness.databases.feeder import CONNECTIONS, TableFeeder
from harness.model.expectation import Feed, FeedRecord
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_inputs import FakeInputs
from tests.support.waits import Waits


def make(rng: Random, n: int) -> FeedRecord:
    return FeedRecord(b"k", b"%d" % n)


def completed(path: Path) -> list[tuple[str, object]]:
    told = [orjson.loads(line) for line in (path / "feeder.jsonl").read_bytes().splitlines()]
    return [(line["type"], line.get("acks")) for line in told if line["type"] in ("ok", "fail", "info")]


def feeder(
    path: Path, fakes: list[FakeInputs], abort_share: float = 0.0, late_share: float = 0.0
) -> TableFeeder:
    given = iter(fakes)
    journal = Journal(path / "feeder.jsonl", 0, JournalBegan("feeder", role="feeder"))
    one = TableFeeder(lambda: next(given), Feed("rows", make), 100.0, abort_share, 1, journal, Control(None))
    one._fates = Fates(abort_share, late_share)
    return one


class Fates(Random):
    """Draws a late transaction, and then whether it is aborted, as told."""

    def __init__(self, abort_share: float, late_share: float) -> None:
        super().__init__(1)
        self.draws = 0
        self.told = (1.0 - late_share, 1.0 - abort_share)

    def random(self) -> float:
        self.draws += 1
        return self.told[(self.draws - 1) % 2]

    def uniform(self, a: float, b: float) -> float:
        return 60.0


def test_nothing_is_written_before_it_is_told_to_go(tmp_path: Path) -> None:
    one = feeder(tmp_path, [FakeInputs() for _ in range(CONNECTIONS)])
    one._control = Waits(None)
    one.run()
    assert one._control.waited and one._journal.ops == 0


def test_a_committed_row_is_acknowledged_by_its_number(tmp_path: Path) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    one = feeder(tmp_path, fakes)
    assert one._write(2) == 2 and one.acked == 2
    assert completed(tmp_path) == [("ok", [[0, 1], [0, 2]])]
    assert [row.value for row in fakes[0].rows] == ["feeder:0:0", "feeder:0:1"]


def test_what_was_rolled_back_failed(tmp_path: Path) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    one = feeder(tmp_path, fakes, abort_share=1.0)
    one._write(1)
    assert completed(tmp_path) == [("fail", None)] and not fakes[0].rows


def test_a_commit_that_nobody_answered_is_unknown_and_one_that_was_never_asked_for_failed(
    tmp_path: Path,
) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    one = feeder(tmp_path, fakes)
    fakes[0].fails = {"commit"}
    one._write(1)
    fakes[0].fails = {"write"}
    assert one._write(1) == 0
    assert [outcome for outcome, _ in completed(tmp_path)] == ["info", "fail"]


def test_a_late_transaction_is_open_while_others_commit_and_the_first_ends_where_there_is_no_room(
    tmp_path: Path,
) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    one = feeder(tmp_path, fakes, late_share=1.0)
    for _ in range(CONNECTIONS):
        one._write(1)
    assert one.acked == 0 and completed(tmp_path) == []
    one._write(1)
    assert one.acked == 1
    one._end_due(float("inf"))
    assert one.acked == CONNECTIONS + 1
