"""From stored runs and history files to verdicts: open the evidence, check it on Spark, decide.

Begin with `check` (the command) and `verdict_rules` (valid, unknown or invalid).
"""
