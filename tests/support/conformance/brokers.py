"""Checks that a cluster can kill, pause and stop its brokers and start them again."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from harness.cluster import Ability, Cluster
from harness.common.errors import FaultFailed
from harness.common.waiting import wait_for
from tests.support.conformance.means import (
    MOVE_TIMEOUT_S,
    ONLY_USER,
    TOPIC,
    ClusterUser,
    broker_of,
    has_moved_leaders,
)


def check_cluster_offers_no_brokers(cluster: Cluster, needs: Ability) -> None:
    """A cluster without the ability lists no brokers."""
    assert not cluster.brokers, f"it has brokers, and says that it cannot {needs}"


def check_kill_and_start(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    id_ = user.name("shop-1")
    broker = broker_of(cluster, cluster.txn_coordinator(id_))
    pid = broker.pid
    assert "SIGKILL" in broker.kill()
    assert not broker.running
    assert not psutil.pid_exists(pid)
    assert f"broker {broker.id} is not running" in cluster.out_of_sync()
    _raises_fault(broker.kill)
    _raises_fault(broker.pause)
    wait_for(lambda: has_moved_leaders(cluster, broker, user), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.txn_coordinator(id_) not in (-1, broker.id)
    broker.start()
    assert broker.running
    assert broker.pid != pid
    broker.start()  # does nothing


def check_pause_and_resume(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    broker = broker_of(cluster, cluster.controller())
    pid = broker.pid
    assert broker.pause()
    assert not broker.running
    began = time.monotonic()
    assert cluster.out_of_sync()
    assert time.monotonic() - began < 5, "a paused broker blocked a query"
    wait_for(lambda: has_moved_leaders(cluster, broker, user), "other leaders", MOVE_TIMEOUT_S)
    assert cluster.controller() != broker.id
    assert broker.resume()
    assert broker.running
    assert broker.pid == pid
    assert "was not stopped" in broker.resume()


def check_stop_and_start(cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
    broker = cluster.brokers[0]
    assert broker.stop()
    assert not broker.running
    wait_for(lambda: has_moved_leaders(cluster, broker, user), "other leaders", MOVE_TIMEOUT_S)
    broker.start()
    assert broker.log_file.stat().st_size > 0
    led = next(iter(cluster.describe(user.name(TOPIC))))
    assert broker.log_bytes((user.name(TOPIC), led)) > 0
    assert broker.log_bytes(("no-such-topic", 0)) == 0


@dataclass(frozen=True)
class BrokerCheck:
    """A check that injects a fault into a broker, and the ability of the cluster that it needs."""

    name: str
    needs: Ability
    act: Callable[[Cluster, ClusterUser], None]

    def __call__(self, cluster: Cluster, user: ClusterUser = ONLY_USER) -> None:
        self.act(cluster, user)


BROKER_CHECKS = (
    BrokerCheck("kill", Ability.KILL, check_kill_and_start),
    BrokerCheck("pause", Ability.PAUSE, check_pause_and_resume),
    BrokerCheck("stop", Ability.KILL, check_stop_and_start),
)


def _raises_fault(action: Callable[[], str]) -> None:
    try:
        action()
    except FaultFailed:
        return
    raise AssertionError("an action on a broker that is not running did not fail")
