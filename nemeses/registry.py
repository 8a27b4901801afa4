"""The registry of faults. A new fault is one file and one line here."""

from harness.runner.nemesis import Nemesis
from nemeses import (
    cut_txn_coordinator,
    disconnect_broker,
    drop_packets,
    kill_broker,
    kill_group_coordinator,
    kill_instance,
    kill_leader_ahead,
    kill_postgres,
    kill_txn_coordinator,
    kill_worker,
    lose_answers,
    partition,
    pause_broker,
    pause_instance,
    pause_worker,
)

_FILES = (
    kill_broker,
    pause_broker,
    kill_txn_coordinator,
    kill_group_coordinator,
    partition,
    kill_worker,
    pause_worker,
    kill_instance,
    pause_instance,
    lose_answers,
    cut_txn_coordinator,
    kill_leader_ahead,
    kill_postgres,
    drop_packets,
    disconnect_broker,
)

NEMESES: dict[str, Nemesis] = {file.NEMESIS.name: file.NEMESIS for file in _FILES}
