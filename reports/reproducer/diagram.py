"""The diagram of a finding as a file of its own."""

from collections.abc import Callable
from dataclasses import replace

from reports.pictures.sequence import sequence
from reports.story.model import Diagram

WIDTH = 920
STYLE = """
svg { background: #fff; font: 12px system-ui, "DejaVu Sans", sans-serif; } text { fill: #1c1d1f; }
.tick { fill: #5c5f66; font-size: 11px; } .participant { font-weight: 600; } .lifeline { stroke: #d9d9d4; }
.arrow { stroke: #1c1d1f; stroke-width: 1.5; } .arrow-head { fill: #1c1d1f; stroke: none; }
.arrow-text { paint-order: stroke; stroke: #fff; stroke-width: 4px; } .step { fill: #f6f6f3; stroke: #d9d9d4; }
.step.by-fault { fill: #fff; stroke: #d17f00; stroke-width: 2; } .step.by-rule { fill: #fff; stroke: #6e5a8a; }
.arrow.by-rule { stroke: #6e5a8a; } .arrow-head.by-rule { fill: #6e5a8a; }
.arrow.inferred, .step.inferred { stroke-dasharray: 5 3; }
.arrow.missing-read, .arrow.to-abort, .step.missing-read { stroke: #c24100; }
.arrow-head.missing-read, .arrow-head.to-abort { fill: #c24100; }
"""


def draw_file(diagram: Diagram, clean: Callable[[str], str]) -> str | None:
    """Return the diagram as the text of an SVG file. None: it has no messages.

    `clean` replaces what must not become public: each text in the drawing passes through it.
    """
    participants = [replace(each, name=clean(each.name)) for each in diagram.participants]
    messages = [
        replace(each, sender=clean(each.sender), receiver=clean(each.receiver), text=clean(each.text))
        for each in diagram.messages
    ]
    drawn = sequence("finding", WIDTH, replace(diagram, participants=participants, messages=messages))
    if drawn is None:
        return None
    opening, _, rest = str(drawn).partition(">")
    return f'{opening} xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>{rest}\n'
