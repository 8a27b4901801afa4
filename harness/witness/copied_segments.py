"""The segment files of every replica, brought from where the brokers run into folders of this machine."""

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.promises import SEGMENTS
from harness.witness import Edge, Place


class CopiedSegments:
    """A `Witness` of a cluster whose data folders lie elsewhere; `copy` brings all of them into the run's folder."""

    kind = SEGMENTS
    unbroken: frozenset[str] = frozenset()  # nobody has looked

    def __init__(self, copy: Callable[[], None]) -> None:
        self._copy = copy

    @property
    def refused(self) -> Mapping[str, str]:
        """Nothing: the files are ours."""
        return {}

    def take(self, edges: Mapping[Place, Edge], folder: Path) -> None:
        """Bring them. Raises `EnvironmentFailure`."""
        self._copy()
