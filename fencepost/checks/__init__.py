"""From stored runs and history files to verdicts: open the evidence, check it with Spark, and decide the verdicts.

Start with `check` (the command), `check_stored_runs` (one job) and `verdict_rules` (valid, unknown or invalid).
"""
