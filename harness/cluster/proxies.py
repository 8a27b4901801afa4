"""The server of toxiproxy that carries a cluster's links."""

from collections.abc import Collection
from pathlib import Path

from harness.cluster.node import PortTaken
from harness.cluster.start_diagnosis import diagnosis, port_taken
from harness.errors import StartFailed
from harness.network.toxiproxy import HOST, Proxy, Toxiproxy, ToxiproxyError
from harness.processes.child import Child
from harness.processes.spawn import Supervisor
from harness.waiting import wait_for

TOXIPROXY_TIMEOUT_S = 15.0


class ToxiproxyServer:
    """A process of the run. Begun, then filled; `end` may come at any time."""

    def __init__(self, binary: Path, port: int, folder: Path) -> None:
        self._binary = binary
        self._log = folder / "toxiproxy.log"
        self.api = Toxiproxy(port)
        self.child: Child | None = None

    def start(self, supervisor: Supervisor, proxies: Collection[Proxy]) -> Child:
        """Start it, with these proxies. Raises `PortTaken`, `StartFailed`."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [self._binary, "-host", HOST, "-port", str(self.api.port)]
        child = self.child = supervisor.spawn(command, name="toxiproxy", log_file=self._log)

        def up() -> bool:
            if child.poll() is not None:
                words = self._log.read_text(errors="replace")
                kind = PortTaken if port_taken(words) else StartFailed
                raise kind(f"toxiproxy did not start: {diagnosis(words)}; its log is {self._log}")
            try:
                return bool(self.api.version())
            except ToxiproxyError:
                return False

        wait_for(up, "toxiproxy to answer", TOXIPROXY_TIMEOUT_S, every_s=0.01)
        try:
            self.api.populate(list(proxies))
        except ToxiproxyError as error:
            kind = PortTaken if port_taken(str(error)) else StartFailed
            raise kind(f"the proxies could not be made: {error}") from error
        return child

    def end(self) -> None:
        """Kill it. Raises `EnvironmentFailure` where it stays."""
        if self.child is not None:
            self.child.kill()
