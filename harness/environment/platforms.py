"""The kinds of machine that programs are built for."""

import platform
from dataclasses import dataclass

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Platform:
    """A system and a machine by Go's names, which are Docker's as well."""

    system: str  # linux, darwin
    machine: str  # amd64, arm64

    def __str__(self) -> str:
        return f"{self.system}/{self.machine}"

    @classmethod
    def here(cls) -> "Platform":
        """This machine's."""
        machine = platform.machine().lower()
        return cls(platform.system().lower(), _MACHINES.get(machine, machine))
