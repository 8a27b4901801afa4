"""A sequence diagram: a lifeline for each participant, and one row for each message, in order of time."""

from textwrap import wrap

from markupsafe import Markup

from harness.common.wording import printable
from reports.pictures.static import Drawing
from reports.story.model import EVERYBODY, Diagram, Kind, Message

ROW, LINE, TIMES = 30.0, 15.0, 76.0
MOST_LINES = 5
CHARACTER, BOLD_CHARACTER = 6.7, 7.8
"""About the width of a character, in pixels."""
_KINDS = {
    Kind.REQUEST: "by-rule",
    Kind.FAULT: "by-fault",
    Kind.HEAL: "by-fault",
}


def sequence(ident: str, width: int, diagram: Diagram) -> Markup | None:
    """Return the drawing; None if the diagram has no messages."""
    if not diagram.messages:
        return None
    description = "; ".join(f"{_time(message)} {message}".strip() for message in diagram.messages)
    drawing = Drawing(f"{ident}-{width}", width, "The messages in order of time", description, "sequence")
    step = (width - TIMES) / len(diagram.participants)
    lifelines = {each.name: TIMES + (n + 0.5) * step for n, each in enumerate(diagram.participants)}
    names = {
        each.name: _lines(each.name, max(8, int(step / BOLD_CHARACTER))) for each in diagram.participants
    }
    head = LINE * max(map(len, names.values())) + 12
    bottom = head + len(diagram.messages) * ROW + 14
    for name, x in lifelines.items():
        drawing.line(x, head - 6, x, bottom, "lifeline")
        for line, text in enumerate(names[name]):
            y = head - 14 - LINE * (len(names[name]) - 1 - line)
            drawing.text(x, y, text, kind="participant", anchor="middle", most=60)
    for row, message in enumerate(diagram.messages):
        _draw(drawing, message, lifelines, head + (row + 0.7) * ROW, width)
    return drawing.markup(bottom + 4)


def legend(diagram: Diagram) -> str:
    """Return what the colours and numbers of the drawing mean: those that it has."""
    kinds = {message.kind for message in diagram.messages}
    meanings = {
        "Red: what a correct run does not have.": any(message.bad for message in diagram.messages),
        "Orange: faults.": bool(kinds & {Kind.FAULT, Kind.HEAL}),
        "Purple: requests on which a rule acted, and their retries.": Kind.REQUEST in kinds,
        "The number of a request is its correlation id.": Kind.REQUEST in kinds,
        "Dashed: inferred, because no evidence shows it.": any(each.inferred for each in diagram.messages),
        "A time that is adjusted says so: the time stamp contradicts other evidence.": any(
            each.adjusted for each in diagram.messages
        ),
    }
    return " ".join(meaning for meaning, shown in meanings.items() if shown)


def _draw(drawing: Drawing, message: Message, lifelines: dict[str, float], y: float, width: int) -> None:
    kind = f"{message.kind.value} {_KINDS.get(message.kind, '')}".strip()
    if message.kind in (Kind.MARKER, Kind.STATE) and "bort" in message.text:
        kind += " to-abort"
    if message.bad:
        kind += " bad"
    if message.inferred:
        kind += " inferred"
    drawing.text(TIMES - 10, y + 4, _time(message), kind="tick", anchor="end")
    half = len(message.text) * CHARACTER / 2
    if message.sender == message.receiver:
        middle = (TIMES + width) / 2 if message.sender == EVERYBODY else lifelines[message.sender]
        left, right = middle - half - 7, middle + half + 7
        if message.sender == EVERYBODY:
            left, right = TIMES, float(width)
        shift = max(TIMES - left, 0.0) - max(right - width, 0.0)
        drawing.rect(left + shift, y - 11, right - left, 21, kind=f"step {kind}")
        drawing.text(middle + shift, y + 4, message.text, kind="step-text", anchor="middle", most=100)
        return
    start, end = lifelines[message.sender], lifelines[message.receiver]
    towards = 1.0 if end > start else -1.0
    drawing.line(start, y + 4, end - 5 * towards, y + 4, f"arrow {kind}")
    drawing.path(
        [(end - 9 * towards, y), (end, y + 4), (end - 9 * towards, y + 8)], f"arrow-head {kind}", y + 4
    )
    middle = min(max((start + end) / 2, TIMES + half), width - half)
    drawing.text(middle, y - 2, message.text, kind="arrow-text", anchor="middle", most=100)


def _time(message: Message) -> str:
    return "" if message.at_ns is None else f"{message.at_ns / 1e9:,.3f} s"


def _lines(name: str, most: int) -> list[str]:
    """Break a name into lines of at most `most` characters, if possible at spaces and hyphens."""
    lines = wrap(printable(name, 200), most) or [""]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]
