"""From options to a finished run: plan, prepare, carry out, report progress.

Begin with `carry_out`.
"""
