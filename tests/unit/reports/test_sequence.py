"""The drawing of a sequence diagram."""

import re

from reports.pictures.sequence import legend, sequence
from reports.story.model import EVERYBODY, Diagram, Kind, Message, Participant, Rank


def diagram(*messages: Message) -> Diagram:
    return Diagram(
        [Participant("w", Rank.PROCESS), Participant("coordinator of an id", Rank.COORDINATOR)], messages
    )


def test_each_message_has_its_time_and_text_and_its_participants_are_named_once() -> None:
    drawn = str(
        sequence(
            "s",
            900,
            diagram(
                Message(1_500_000_000, "w", "coordinator of an id", "EndTxn(commit)", Kind.COMMIT),
                Message(None, "w", "w", "gets no response, and ends", Kind.END),
                Message(2_000_000_000, EVERYBODY, EVERYBODY, "broker 1 was killed", Kind.FAULT),
            ),
        )
    )
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert [text for text in texts if text in ("w", "coordinator of an id")] == ["w", "coordinator of an id"]
    assert "1.500 s" in texts and "EndTxn(commit)" in texts and "broker 1 was killed" in texts
    assert drawn.count('class="lifeline"') == 2 and drawn.count("arrow-head") == 1


def test_a_diagram_without_messages_is_not_drawn() -> None:
    assert sequence("s", 900, Diagram((), ())) is None


def test_what_programs_wrote_is_escaped() -> None:
    drawn = str(sequence("s", 900, diagram(Message(0, "w", "w", "<script>alert(1)</script>", Kind.END))))
    assert "<script>" not in drawn and "&lt;script&gt;" in drawn


def test_a_long_name_is_broken_into_lines() -> None:
    name = "coordinator of shop-3.0-abc35236007c0713-and-more-and-more-and-more"
    messages = [Message(0, name, name, "x", Kind.STATE)]
    participants = [Participant(f"p{n}", Rank.PROCESS) for n in range(8)] + [
        Participant(name, Rank.COORDINATOR)
    ]
    drawn = str(sequence("s", 900, Diagram(participants, messages)))
    names = re.findall(r'class="participant"[^>]*>([^<]*)<', drawn)
    assert max(map(len, names)) <= 13 and "…" in names


def test_the_legend_has_only_the_colours_that_are_drawn() -> None:
    begin = Message(1, "w", "w", "begins", Kind.BEGIN)
    assert legend(diagram(begin)) == ""
    fault = Message(2, EVERYBODY, EVERYBODY, "broker 1 was killed", Kind.FAULT)
    assert legend(diagram(begin, fault)) == "Orange: faults."
    request = Message(3, "w", "coordinator of an id", "EndTxn(commit) 7", Kind.REQUEST, bad=True)
    words = legend(diagram(begin, request))
    assert words.startswith("Red: ") and "Purple" in words and "Orange" not in words
    assert words.endswith("The number of a request is its correlation id.")
    assert legend(diagram(Message(3, "w", "coordinator of an id", "EndTxn(commit)", Kind.COMMIT))) == ""


def test_what_is_inferred_is_dashed_and_the_legend_says_so() -> None:
    observed = Message(1, "w", "w", "begins", Kind.BEGIN)
    assert "inferred" not in str(sequence("s", 900, diagram(observed)))
    drawn = diagram(observed, Message(2, "w", "coordinator of an id", "input @1", Kind.INPUT, inferred=True))
    assert str(sequence("s", 900, drawn)).count('class="arrow input inferred"') == 1
    assert legend(drawn) == "Dashed: inferred, because no evidence shows it."
    adjusted = Message(3, "w", "w", "record @1 (time adjusted)", Kind.RECORD, adjusted=True)
    assert legend(diagram(adjusted)).startswith("A time that is adjusted says so")
