"""From options to a finished run: plan it, prepare its parts, carry it out.

Begin with `carry_out`. `planning` makes the run plan, with `protocol_rules` and `written_schedule`. `programs` says
what each process runs, and `process` is that process.
"""
