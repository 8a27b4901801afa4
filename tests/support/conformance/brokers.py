"""Brokers are struck, and come back."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from harness.cluster import Ability, Cluster
from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from tests.support.conformance.means import HOST, MOVE_TIMEOUT_S, TOPIC, Footing, moved_from, of


def check_brokers_are_not_to_be_struck(cluster: Cluster, needs: Ability) -> None:
    """A cluster of which that cannot be done hands out no broker to do it to."""
    assert not cluster.brokers, f"it has brokers, and says that it cannot {needs}"


def check_kill_and_start(cluster: Cluster, footing: Footing = HOST) -> None:
    id_ = footing.name("shop-1")
    broker = of(cluster, cluster.txn_coordinator(id_))
    pid = broker.pid
    assert "SIGKILL" in broker.kill()
    assert not broker.running
    assert not psutil.pid_exists(pid)
    assert f"broker {broker.id} is not running" in cluster.out_of_sync()
    _raises_fault(broker.kill)
    _raises_fault(broker.pause)
    wait_for(lambda: moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.txn_coordinator(id_) not in (-1, broker.id)
    broker.start()
    assert broker.running
    assert broker.pid != pid
    broker.start()  # does nothing


def check_pause_and_resume(cluster: Cluster, footing: Footing = HOST) -> None:
    broker = of(cluster, cluster.controller())
    pid = broker.pid
    assert broker.pause()
    assert not broker.running
    began = time.monotonic()
    assert cluster.out_of_sync()
    assert time.monotonic() - began < 5, "a paused broker made a question hang"
    wait_for(lambda: moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.controller() != broker.id
    assert broker.resume()
    assert broker.running
    assert broker.pid == pid
    assert "was not stopped" in broker.resume()


def check_stop_and_start(cluster: Cluster, footing: Footing = HOST) -> None:
    broker = cluster.brokers[0]
    assert broker.stop()
    assert not broker.running
    wait_for(lambda: moved_from(cluster, broker, footing), "other leaders", MOVE_TIMEOUT_S)
    broker.start()
    assert broker.log_file.stat().st_size > 0
    led = next(iter(cluster.describe(footing.name(TOPIC))))
    assert broker.log_bytes((footing.name(TOPIC), led)) > 0
    assert broker.log_bytes(("no-such-topic", 0)) == 0


@dataclass(frozen=True)
class OfBrokers:
    """A check that strikes a broker, and what a cluster must be able to for it."""

    name: str
    needs: Ability
    act: Callable[[Cluster, Footing], None]

    def __call__(self, cluster: Cluster, footing: Footing = HOST) -> None:
        self.act(cluster, footing)


OF_BROKERS = (
    OfBrokers("kill", Ability.KILL, check_kill_and_start),
    OfBrokers("pause", Ability.PAUSE, check_pause_and_resume),
    OfBrokers("stop", Ability.KILL, check_stop_and_start),
)


def _raises_fault(verb: Callable[[], str]) -> None:
    try:
        verb()
    except FaultFailed:
        return
    raise AssertionError("a verb took a broker that was not there")
