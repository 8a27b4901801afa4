"""Records which request versions the workers use: for some seconds, the brokers log the requests that they receive.

The recording starts before the workers, so that it includes the requests with which they join their group. It ends
after the first commits. The report shows the versions, but they never decide a verdict. If a broker cannot record, the
run continues without the versions.
"""

from collections.abc import Sequence

from harness.cluster import Cluster
from harness.common.errors import EnvironmentFailure
from harness.results.reasons import Reason, ReasonCode
from harness.runner.run_log import RunLog

MIN_S = 1.0
MAX_S = 25.0
"""The recording ends at the first commit, but at least MIN_S and at most MAX_S after the feeder has started."""


class RequestRecording:
    """One recording: call `begin` once, then `tick` regularly, then `end`."""

    def __init__(self, cluster: Cluster, endpoints: Sequence[str], run_log: RunLog) -> None:
        self._cluster = cluster
        self._endpoints = endpoints
        self._run_log = run_log
        self._on = False

    def begin(self) -> None:
        """Let the brokers log their requests."""
        self._on = True
        self._switch(on=True)  # if a broker fails to switch it on, the logs of the others are enough

    def tick(self, elapsed_s: float, committed: int) -> None:
        """End the recording when it contains enough. `elapsed_s` counts from the start of the feeder."""
        if self._on and elapsed_s >= MIN_S and (committed or elapsed_s >= MAX_S):
            self.end()

    def end(self, *, last: bool = False) -> None:
        """Stop the recording and read it.

        If a broker does not stop, the next tick tries again. With `last` there is no next tick. The failure is then a
        warning, because the broker continues to log requests.
        """
        if not self._on:
            return
        error = self._switch(on=False)
        if error is None or last:
            self._on = False
            self._run_log.requests = self._cluster.client_versions(self._endpoints)
        if error is not None and last:
            message = f"a broker did not stop logging requests, which slows it down: {error}"
            self._run_log.unexpected_errors.append(Reason(ReasonCode.REQUESTS_RECORDED, message))

    def _switch(self, *, on: bool) -> EnvironmentFailure | None:
        try:
            self._cluster.record_requests(on)
        except EnvironmentFailure as error:
            return error
        return None
