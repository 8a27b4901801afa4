"""The feeder of a table records the outcomes of its transactions."""

from pathlib import Path
from random import Random

import orjson

from harness.databases.feeder import CONNECTIONS, TableFeeder
from harness.model.expectation import Feed, FeedRecord
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.control import Control
from tests.support.fake_inputs import FakeInputs
from tests.support.waits import StoppingControl


def make_record(rng: Random, n: int) -> FeedRecord:
    return FeedRecord(b"k", b"%d" % n)


def completions(path: Path) -> list[tuple[str, object]]:
    events = [orjson.loads(line) for line in (path / "feeder.jsonl").read_bytes().splitlines()]
    return [(event["type"], event.get("acks")) for event in events if event["type"] in ("ok", "fail", "info")]


def make_feeder(
    path: Path, fakes: list[FakeInputs], abort_share: float = 0.0, late_share: float = 0.0
) -> TableFeeder:
    tables = iter(fakes)
    journal = Journal(path / "feeder.jsonl", 0, JournalBegan("feeder", role="feeder"))
    feeder = TableFeeder(
        lambda: next(tables), Feed("rows", make_record), 100.0, abort_share, 1, journal, Control(None)
    )
    feeder._fates = FixedFates(abort_share, late_share)
    return feeder


class FixedFates(Random):
    """Draws first whether a transaction is late, then whether it is aborted, each time with the same result."""

    def __init__(self, abort_share: float, late_share: float) -> None:
        super().__init__(1)
        self.draws = 0
        self.results = (1.0 - late_share, 1.0 - abort_share)

    def random(self) -> float:
        self.draws += 1
        return self.results[(self.draws - 1) % 2]

    def uniform(self, a: float, b: float) -> float:
        return 60.0


def test_nothing_is_written_before_the_command_to_go(tmp_path: Path) -> None:
    feeder = make_feeder(tmp_path, [FakeInputs() for _ in range(CONNECTIONS)])
    feeder._control = StoppingControl(None)
    feeder.run()
    assert feeder._control.was_waiting and feeder._journal.ops == 0


def test_a_committed_row_is_acknowledged_by_its_number(tmp_path: Path) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    feeder = make_feeder(tmp_path, fakes)
    assert feeder._write(2) == 2 and feeder.acked == 2
    assert completions(tmp_path) == [("ok", [[0, 1], [0, 2]])]
    assert [row.value for row in fakes[0].rows] == ["feeder:0:0", "feeder:0:1"]


def test_a_rolled_back_transaction_fails(tmp_path: Path) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    feeder = make_feeder(tmp_path, fakes, abort_share=1.0)
    feeder._write(1)
    assert completions(tmp_path) == [("fail", None)] and not fakes[0].rows


def test_a_commit_without_an_answer_is_info_and_a_failed_write_fails(
    tmp_path: Path,
) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    feeder = make_feeder(tmp_path, fakes)
    fakes[0].fails = {"commit"}
    feeder._write(1)
    fakes[0].fails = {"write"}
    assert feeder._write(1) == 0
    assert [outcome for outcome, _ in completions(tmp_path)] == ["info", "fail"]


def test_late_transactions_stay_open_until_no_connection_is_free(
    tmp_path: Path,
) -> None:
    fakes = [FakeInputs() for _ in range(CONNECTIONS)]
    feeder = make_feeder(tmp_path, fakes, late_share=1.0)
    for _ in range(CONNECTIONS):
        feeder._write(1)
    assert feeder.acked == 0 and completions(tmp_path) == []
    feeder._write(1)
    assert feeder.acked == 1
    feeder._end_due(float("inf"))
    assert feeder.acked == CONNECTIONS + 1
