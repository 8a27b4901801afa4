"""A control line that never sends the command to go on."""

from harness.roles.control import Control


class StoppingControl(Control):
    """Notes that a process waits for the command, and then stops the process."""

    was_waiting = False

    def await_go(self) -> None:
        self.was_waiting = self.stopping = True

    def listen(self, timeout_s: float = 0.0) -> None:
        self.stopping = True
