"""A control line on which nobody says go."""

from harness.roles.control import Control


class Waits(Control):
    """Notes that it was asked to wait, and then has its process stop."""

    waited = False

    def await_go(self) -> None:
        self.waited = self.stopping = True

    def listen(self, timeout_s: float = 0.0) -> None:
        self.stopping = True
