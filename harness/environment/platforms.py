"""Platforms (system and machine) for which programs are built."""

import platform
from dataclasses import dataclass

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Platform:
    """A system and a machine, with the names that Go and Docker use."""

    system: str  # linux, darwin
    machine: str  # amd64, arm64

    def __str__(self) -> str:
        return f"{self.system}/{self.machine}"

    @classmethod
    def of_this_machine(cls) -> "Platform":
        """Return the platform of this machine."""
        machine = platform.machine().lower()
        return cls(platform.system().lower(), _MACHINES.get(machine, machine))
