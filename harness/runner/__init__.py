"""Performs one run: its processes, its schedule of faults, and its final state.

Begin with `run`. `schedule` draws faults, `inject` injects them, and `nemesis` is their interface. `processes` starts
workers, feeder and observer; `churn` lets workers join and leave. `final_state` quiesces the run, with `end_markers`
and `final_reads`. `run_log` collects the run metadata.
"""
