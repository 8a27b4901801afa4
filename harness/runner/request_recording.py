"""Which versions of requests the workers speak: the brokers write down for some seconds what they are asked.

From before the workers start, so that joining a group is seen, until the first transactions have committed. It is
told beside the verdict and decides nothing: where it cannot be had, the run goes on without.
"""

from collections.abc import Sequence

from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure
from harness.results.reasons import Reason, ReasonCode
from harness.runner.run_log import RunLog

LEAST_S = 1.0
MOST_S = 25.0
"""For how long after the feeder began: at least, and at most where nothing commits."""


class RequestRecording:
    """Begun once, ended once."""

    def __init__(self, cluster: Cluster, endpoints: Sequence[str], run_log: RunLog) -> None:
        self._cluster = cluster
        self._endpoints = endpoints
        self._run_log = run_log
        self._on = False

    def begin(self) -> None:
        """Have the brokers write down what they are asked."""
        self._on = True
        self._switch(on=True)  # where a broker does not answer, what the others write down is enough

    def tick(self, since_s: float, committed: int) -> None:
        """End it once there is enough; `since_s`: since the feeder began."""
        if self._on and since_s >= LEAST_S and (committed or since_s >= MOST_S):
            self.end()

    def end(self, *, last: bool = False) -> None:
        """Have no more written down, and take in what was. Where a broker refuses, it is asked again at the next tick;
        after the `last` time its refusal is told, for it goes on writing.
        """
        if not self._on:
            return
        refusal = self._switch(on=False)
        if refusal is None or last:
            self._on = False
            self._run_log.spoken = self._cluster.client_versions(self._endpoints)
        if refusal is not None and last:
            words = f"a broker did not stop to record requests, which slows it down: {refusal}"
            self._run_log.unexpected_errors.append(Reason(ReasonCode.REQUESTS_RECORDED, words))

    def _switch(self, *, on: bool) -> EnvironmentFailure | None:
        try:
            self._cluster.record_requests(on)
        except EnvironmentFailure as error:
            return error
        return None
