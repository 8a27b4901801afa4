"""kill-broker: the leader of a partition ends by SIGKILL, and starts again on its old data."""

from contextlib import AbstractContextManager

from harness.schedule import Acted, Lane, Nemesis, Scene, Strike
from nemeses.brokers import kill, restart, struck
from nemeses.targets import any_leader


def kill_broker(scene: Scene, strike: Strike) -> AbstractContextManager[Acted]:
    """It acted if its process ended by the signal and another broker leads the partition."""
    return struck(scene, strike, kill, restart)


NEMESIS = Nemesis(
    name="kill-broker",
    summary="kill -9 the leader of a partition, and start it again",
    lane=Lane.CLUSTER,
    hold_s=8.0,
    recovery_s=10.0,
    draw=any_leader,
    strike=kill_broker,
)
