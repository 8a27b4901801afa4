"""Reprocessed input: an input took effect more than once.

For one input and one output name, the logs hold more visible outputs than the workload expects. It expects one if it
says nothing of this output name. If the workload expects no output of an input (a filter, an aggregate), there is
another rule: the input is in the ranges that two committed transactions of one group claimed.

Illegal because exactly-once means that each input takes effect once. A stage of an exactly-once pipeline may promise
less if a later stage removes duplicates. Then its repeats are permitted, and counted separately.
Evidence: outputs name their inputs and their output name in headers, and the markers of the log say what is visible.

    T1  poll a@4, send x=1 (from a@4), commit     ok
    T2  poll a@4, send x=2 (from a@4), commit     ok
    final read of x: 1 and 2                            <- reprocessed-input

Without journals: outputs are joined to inputs by the correlation key (a field, a header or the key), or by their whole
content. If several inputs are equal, the outputs of all of them are expected together.

Blind spot: outputs that do not say which inputs they come from.
Reference: KIP-98; Wang et al. 2021, "Consistency and Completeness" (SIGMOD).
"""

from checkers.findings import MAX_SHOWN, AnomalyWording, Rule, record_position
from harness.common.wording import join_words
from harness.results.example import Example

NAME = "reprocessed-input"
VISIBLE = "filter(outputs, o -> o.visible and o.output_name is not null)"
OUTPUT_NAMES = (
    f"array_distinct(transform({VISIBLE}, o -> struct(o.output_name as output_name, o.topic as topic)))"
)
BY_OUTPUT_NAME = f"""if(size({VISIBLE}) > 1, transform({OUTPUT_NAMES}, s -> struct(
    s.output_name as output_name,
    greatest(size(filter(expected, e -> e.output_name = s.output_name and e.topic = s.topic)), 1) as due,
    exists(expected, e -> e.output_name = s.output_name and e.topic = s.topic) as is_expected,
    exists(expected, e -> e.output_name = s.output_name and e.topic = s.topic
        and array_contains(allows_duplicates, e.stage)) as allows_duplicates,
    filter({VISIBLE}, o -> o.output_name = s.output_name and o.topic = s.topic) as outputs)), array())"""
"""For each output name: how many outputs the input must lead to, whether that is known, whether the stage promises only
at-least-once, and the outputs that have this name.
"""
CLAIMS = """filter(claims, c -> c.settled = 'committed' and c.transactional
    and not exists(expected, e -> e.group = c.group))"""
BY_GROUP = f"""if(visible and size({CLAIMS}) > 1, transform(
    array_distinct(transform({CLAIMS}, c -> c.group)), g -> struct(
    g as name, array_distinct(transform(filter({CLAIMS}, c -> c.group = g), c -> c.op)) as ops)), array())"""
"""For each group without expected outputs: the transactions that claim the input."""

RULES = (
    Rule(
        NAME,
        "inputs",
        elements=BY_OUTPUT_NAME,
        where="size(array_distinct(transform(element.outputs, o -> o.name))) > element.due",
        permitted="coalesce(element.allows_duplicates, false)",
        order=["tp", "offset"],
        ops="array_distinct(transform(element.outputs, o -> o.op))",
        absence="not element.is_expected",  # the input may not have been read, so that it is not known what it owes
        detail={
            "input": record_position(),
            "slot": "element.output_name",
            "expected": "element.due",
            "records": f"transform(slice(element.outputs, 1, {MAX_SHOWN}), o -> "
            "struct(o.tp as tp, o.offset as offset, o.name as value, o.op as op))",
        },
    ),
    Rule(
        NAME,
        "inputs",
        elements=BY_GROUP,
        where="size(element.ops) > 1",
        order=["tp", "offset"],
        ops="element.ops",
        detail={
            "input": record_position(),
            "group": "element.name",
            "operations": f"transform(slice(element.ops, 1, {MAX_SHOWN}), o -> struct(o as op))",
        },
    ),
)
"""One finding for each input and output name, or for each input and group."""


def _sentence(e: Example) -> str:
    times = "twice" if len(e.records) <= 2 else f"{len(e.records)} times"
    effects = [
        f"{record.position} by {writer.words}" if (writer := e.writer(record)) else record.position
        for record in e.records
    ]
    if not effects:
        effects = [f"in {part.words}" for part in e.operations]
    return f"{e.input} took effect {times}" + (f": {join_words(effects)}" if effects else "")


WORDING = {
    "reprocessed-input": AnomalyWording(
        "input took effect more than once",
        "inputs took effect more than once",
        "One input led to more visible outputs than the workload expects.",
        _sentence,
    ),
}
