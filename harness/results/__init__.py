"""Results: verdicts, reasons, run metadata, suites, and how they are put into words.

Begin with `verdict` (all of `verdict.json`) and `reasons` (every reason code). `example` describes the example of a
finding in words, for console and report.
"""

from typing import Annotated

from msgspec import Meta

MOST_S = 7 * 86400.0
"""No run lasts longer than a week, because `time-limit` is at most a day. A greater time is damaged."""
Time = Annotated[float, Meta(ge=-MOST_S, le=MOST_S)]
"""A time of a run, in seconds since it began. It may be negative."""
Count = Annotated[int, Meta(ge=0)]
Duration = Annotated[float, Meta(ge=0)]
"""In seconds."""
