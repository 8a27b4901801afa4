"""pause-broker: the leader of a partition is stopped by SIGSTOP until its session is over.

It keeps its sockets and believes that it still leads; when it goes on, its first answers are stale.
"""

from contextlib import AbstractContextManager

from harness.schedule import Acted, Lane, Nemesis, Scene, Strike
from nemeses.brokers import pause, resume, struck
from nemeses.targets import any_leader


def pause_broker(scene: Scene, strike: Strike) -> AbstractContextManager[Acted]:
    """It acted if the kernel said that it was stopped and another broker leads the partition."""
    return struck(scene, strike, pause, resume)


NEMESIS = Nemesis(
    name="pause-broker",
    summary="SIGSTOP the leader of a partition until another leads it, then SIGCONT",
    lane=Lane.CLUSTER,
    hold_s=9.0,
    recovery_s=6.0,
    draw=any_leader,
    strike=pause_broker,
)
