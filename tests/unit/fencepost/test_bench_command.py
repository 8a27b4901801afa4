"""What `fencepost bench` refuses before anything starts, and what it plans."""

import sys

import pytest

from fencepost.cli import run_command_line
from harness.common.errors import ExitStatus


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--txn-size", "0"], "--txn-size must be whole numbers from 1 to 10,000"),
        (["--txn-size", "1,ten"], "--txn-size must be whole numbers"),
        (["--txn-size", "9" * 5_000], "--txn-size must be whole numbers"),
        (["--txn-size", ""], "--txn-size must be whole numbers"),
        (["--partitions", "65"], "--partitions must be whole numbers from 1 to 64"),
        (["--workers", "-1"], "--workers must be whole numbers from 1 to 16"),
        (["--rounds", "1,2"], "--rounds must be one whole number"),
        (["--rounds", "0"], "--rounds must be whole numbers from 1 to 50"),
        (["--client", "jav"], '"java"'),
        (["--client", ""], "client"),
        (["--seed", "x"], "seed"),
        (["--set", "no"], "KEY=VALUE"),
        (["--set", "txn-sise=3"], "txn-size"),
        (["--round", "3"], "--rounds"),
        (["again"], "again"),
    ],
)
def test_wrong_usage_is_one_sentence_and_status_2(arguments, words, capfd, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # which a command line sets for its process
    assert run_command_line(["bench", *arguments]) == ExitStatus.USAGE
    told = capfd.readouterr()
    assert not told.out
    assert words in told.err
    assert len(told.err.strip().splitlines()) == 1
