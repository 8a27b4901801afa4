"""Start processes that cannot outlive their run, even if the run is killed.

Begin with `spawn`. `guardian` cleans up after a killed run. `specs` is what a process gets when it starts, and
`messages` what it exchanges with the run afterwards.
"""
