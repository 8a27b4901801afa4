"""`run.toml`: all that is needed to repeat a run, in a file that a person can read and edit."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from harness.common.errors import UnreadableInput, UsageError
from harness.common.names import unknown
from harness.model.pipeline import PipelineSpec
from harness.model.promises import Promises
from harness.settings.options import Options, from_toml, to_toml

TABLES = ("options", "run", "schedule", "workload")


@dataclass(frozen=True)
class StoredPlan:
    """The file's tables: `[options]`, `[run]`, `[[schedule]]`, `[workload]`.

    `run` holds the id, the start in UTC, the command, and the wall clock at the run's zero. TOML
    has no null: what is None is left out. The strikes of the schedule are flat: no table in them.
    """

    options: Options
    run: Mapping[str, Any] = field(default_factory=dict)
    schedule: Sequence[Mapping[str, Any]] = ()
    workload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pipeline(self) -> PipelineSpec:
        """The pipeline of the run; raises `UnreadableInput`."""
        try:
            return PipelineSpec.from_table(self.workload)
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInput(
                f"run.toml does not say what the stages of the workload are: {error!r}"
            ) from error

    @property
    def promises(self) -> Promises:
        """The evidence that the run promised; raises `UnreadableInput`."""
        try:
            return Promises.from_table(self.run["promises"])
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableInput(f"run.toml does not say what the run promised: {error!r}") from error

    def text(self) -> str:
        """The file."""
        tables = {"options": to_toml(self.options), "run": _told(self.run), "workload": _told(self.workload)}
        text = tomli_w.dumps({name: table for name, table in tables.items() if table})
        for strike in self.schedule:  # flat, so that each can have a heading of its own
            text += "\n[[schedule]]\n" + tomli_w.dumps(_told(strike))
        return text

    def save(self, path: Path) -> None:
        """Write it whole or not at all."""
        part = path.with_suffix(".part")
        part.write_text(self.text(), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "StoredPlan":
        """Read it back; raises `UnreadableInput`, which names the file."""
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            for name, table in document.items():
                if name not in TABLES:
                    raise UsageError(unknown("table", name, TABLES))
                if not isinstance(table, list if name == "schedule" else dict):
                    raise UsageError(f"{name} must be a table")
            return cls(
                options=from_toml(document.get("options", {})),
                run=document.get("run", {}),
                schedule=document.get("schedule", []),
                workload=document.get("workload", {}),
            )
        except OSError as error:
            raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, UsageError) as error:
            raise UnreadableInput(f"{path} cannot be read: {error}") from error


def _told(value: Any) -> Any:
    """The same without what is None, and with lists for tuples."""
    if isinstance(value, Mapping):
        return {key: _told(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_told(inner) for inner in value if inner is not None]
    return value
