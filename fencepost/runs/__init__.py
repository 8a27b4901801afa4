"""From options to a finished run: plan, prepare, run, and report progress.

Start with `carry_out`.
"""
