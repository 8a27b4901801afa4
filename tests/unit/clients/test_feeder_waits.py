"""A feeder starts before the run begins, but sends nothing until the run says go."""

from pathlib import Path
from random import Random

from harness.clients.interface import ProducerSettings
from harness.model.expectation import Feed, FeedRecord
from harness.record.events import JournalBegan
from harness.record.journal import Journal
from harness.roles.feeder import Feeder
from tests.support.waits import StoppingControl


def make(rng: Random, n: int) -> FeedRecord:
    return FeedRecord(b"k", b"%d" % n)


def test_a_feeder_waits_until_the_run_says_go(tmp_path: Path) -> None:
    control = StoppingControl(None)
    with Journal(tmp_path / "feeder.jsonl", 0, JournalBegan("feeder", role="feeder")) as journal:
        Feeder(ProducerSettings("127.0.0.1:1"), [Feed("in", make)], 0.0, 1, journal, control).run()
        assert control.was_waiting
