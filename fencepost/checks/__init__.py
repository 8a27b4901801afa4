"""From stored runs and history files to verdicts: open the evidence, check it with Spark, and decide.

Start with `check` (the command) and `verdict_rules` (valid, unknown or invalid).
"""
