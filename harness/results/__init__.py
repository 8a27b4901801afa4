"""What describes a result: verdicts, reasons, run metadata, suites, and their wording.

Begin with `verdict` (all of `verdict.json`) and `reasons` (every reason code). `example` puts the example of a finding
into words, for console and report.
"""
