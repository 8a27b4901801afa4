"""Results: verdicts, reasons, run metadata, suites, and how they are put into words.

Begin with `verdict` (all of `verdict.json`) and `reasons` (every reason code). `example` describes the example of a
finding in words, for console and report.
"""
