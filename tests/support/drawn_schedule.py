"""Schedules that are drawn from single nemeses."""

from collections.abc import Sequence
from typing import Any

from harness.runner import schedule
from harness.runner.nemesis import Nemesis


def draw(nemeses: Sequence[Nemesis], *arguments: Any, **options: Any) -> schedule.Schedule:
    """Draw a schedule in which no fault overlaps another by plan."""
    return schedule.draw([schedule.Choice((nemesis,)) for nemesis in nemeses], *arguments, **options)
