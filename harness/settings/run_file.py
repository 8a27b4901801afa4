"""`run.toml`: the stored run plan, which is enough to repeat a run. People can read and edit it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from harness.common.documents import decode_table, read_toml, without_none
from harness.common.errors import UnreadableInput, UsageError
from harness.common.wording import unknown
from harness.model.pipeline import PipelineSpec
from harness.model.promises import Promises
from harness.settings.options import Options, from_toml, to_toml

TABLES = ("options", "run", "schedule", "workload")


@dataclass(frozen=True)
class StoredPlan:
    """The file's tables: `[options]`, `[run]`, `[[schedule]]`, `[workload]`.

    `run` contains the id, the start in UTC, the command, the wall clock time at which the run began, and the promises.
    TOML has no null, so None is left out. The planned faults of the schedule contain no tables.
    """

    options: Options
    run: Mapping[str, Any] = field(default_factory=dict)
    schedule: Sequence[Mapping[str, Any]] = ()
    workload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pipeline(self) -> PipelineSpec:
        """The pipeline of the run. Raises `UnreadableInput`."""
        try:
            return PipelineSpec.from_table(self.workload)
        except ValueError as error:
            raise UnreadableInput(
                f"run.toml does not describe the stages of the workload: {error}"
            ) from error

    @property
    def promises(self) -> Promises:
        """The evidence that the run promised. Raises `UnreadableInput`."""
        try:
            return decode_table(self.run.get("promises"), Promises)
        except ValueError as error:
            raise UnreadableInput(f"run.toml does not say what the run promised: {error}") from error

    def text(self) -> str:
        """Return the content of the file."""
        tables = {
            "options": to_toml(self.options),
            "run": without_none(self.run),
            "workload": without_none(self.workload),
        }
        text = tomli_w.dumps({name: table for name, table in tables.items() if table})
        for fault in self.schedule:  # without tables, so that each can have its own heading
            text += "\n[[schedule]]\n" + tomli_w.dumps(without_none(fault))
        return text

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        part = path.with_suffix(".part")
        part.write_text(self.text(), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "StoredPlan":
        """Read the file. Raises `UnreadableInput`, which names it."""
        try:
            document = read_toml(path)
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
