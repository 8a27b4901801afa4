"""The control of a run: the same run without faults, which shows whether a finding needs a fault."""

from dataclasses import replace
from pathlib import Path

from fencepost import registry
from fencepost.registry import command_line
from fencepost.runs.carry_out import run
from harness.common.errors import UsageError
from harness.common.progress import Progress
from harness.results.conclusions import CONTROL
from harness.results.reasons import ReasonCode
from harness.settings.options import Options

SUFFIX = "-control"
"""The control of the runs NAME is in the folder NAME-control."""


def run_control(options: Options, progress: Progress) -> Path:
    """Run the same without faults, and return the folder of this run.

    Raises:
        UsageError: The run has no faults, so that it would be its own control.
        KeyboardInterrupt: The control was interrupted.
    """
    if options.nemesis == ("none",) and not options.rule and options.schedule is None:
        raise UsageError(
            f"leave out {CONTROL}: with --nemesis none the run has no faults, and is its own control"
        )
    name = f"{options.name or registry.pipeline_of(options).name}{SUFFIX}"
    own = replace(options, nemesis=("none",), rule=(), schedule=None, name=name)
    progress.say("the control, without faults:")
    verdict, folder = run(own, progress, command=command_line(own))
    progress.say(f"the control is {verdict.validity.name.lower()}: {verdict.summary}; {folder}")
    if any(reason.code is ReasonCode.INTERRUPTED for reason in verdict.unknown_because):
        raise KeyboardInterrupt
    progress.say("the run:")
    return folder
