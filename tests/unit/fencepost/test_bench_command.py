"""`fencepost bench` refuses wrong usage before anything starts."""

import sys

import pytest

from fencepost.cli import run_command_line
from harness.common.errors import ExitStatus


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_wrong_usage_is_one_sentence_and_status_2(arguments, message, capfd, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # a command replaces it
    assert run_command_line(["bench", *arguments]) == ExitStatus.USAGE
    output = capfd.readouterr()
    assert not output.out
    assert message in output.err
    assert len(output.err.strip().splitlines()) == 1
