"""Which versions of requests the workers speak: the brokers write down for some seconds what they are asked.

From before the workers start, so that joining a group is seen, until the first transactions have committed. It is
told beside the verdict and decides nothing: where it cannot be had, the run goes on without.
"""

import logging
from collections.abc import Sequence

from harness.cluster import Cluster
from harness.errors import EnvironmentFailure
from harness.runner.run_log import RunLog

LEAST_S = 1.0
MOST_S = 8.0
"""For how long after the feeder began."""
_log = logging.getLogger(__name__)


class RequestRecording:
    """Begun once, ended once."""

    def __init__(self, cluster: Cluster, slots: Sequence[str], run_log: RunLog) -> None:
        self._cluster = cluster
        self._slots = slots
        self._run_log = run_log
        self._on = False

    def begin(self) -> None:
        """Have the brokers write down what they are asked."""
        self._switch(on=True)

    def tick(self, since_s: float, committed: int) -> None:
        """End it once there is enough; `since_s`: since the feeder began."""
        if self._on and since_s >= LEAST_S and (committed or since_s >= MOST_S):
            self.end()

    def end(self) -> None:
        """Take in what was written down, and have no more of it."""
        if self._on:
            self._switch(on=False)
            self._run_log.spoken = self._cluster.spoken(self._slots)

    def _switch(self, *, on: bool) -> None:
        self._on = on
        try:
            self._cluster.record_requests(on)
        except EnvironmentFailure as error:  # a broker does not answer: what others wrote down is enough
            _log.info("the recording of requests: %s", error)
