"""EDN: both parsers read the values that Clojure prints. Any other text is an `EdnError`."""

import json
import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkers.histories.edn import EdnError, MapKey, decode_usual, read, read_all
from checkers.histories.names import UnnameableValue, canonical


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("[true false]", [True, False]),
        ("(1 -2 +3 0 -0)", [1, -2, 3, 0, 0]),
        ("[12345678901234567890123 5N 0x1f -0xFFN]", [12345678901234567890123, 5, 31, -255]),
        ("[1.5 -1e3 2. 1.5M 0.1M 3/4]", [1.5, -1000.0, 2.0, 1.5, 0.1, "3/4"]),
        ("10000000000000000.1M", "10000000000000000.1M"),
        ("[##Inf ##-Inf]", [math.inf, -math.inf]),
        ("[:a :a/b a.b/c-d <init> :1 :true]", ["a", "a/b", "a.b/c-d", "<init>", "1", "true"]),
        (r'"a\n\t\"\\\u00e9\101é"', 'a\n\t"\\éAé'),
        (r'"\ud83d\ude00"', "\N{GRINNING FACE}"),
        (r"[\a \newline \u0041 \o101 \( \\ \,]", ["a", "\n", "A", "A", "(", "\\", ","]),
        ('{:a 1, "b" [2] 3 {}}', {"a": 1, "b": [2], 3: {}}),
        ("#{3 1 2}", [1, 2, 3]),
        ("#{}", []),
        ("#{[2] [1] ##Inf}", [[2], [1], math.inf]),
        ("{[1 [2]] :x}", {(1, (2,)): "x"}),
        ('#inst "2026-01-01"', "2026-01-01"),
        ("#jepsen.history.Op{:f :txn}", {"f": "txn"}),
        ("[#jepsen.history.Op {:f :txn} #:ns{:a 1}]", [{"f": "txn"}, {"ns/a": 1}]),
        ('#object[java.lang.Thread 0x1f "x"]', ["java.lang.Thread", 31, "x"]),
        ("[1 #_ 2 3 #_(4) #_#_ 5 6]", [1, 3]),
        ("[1 #_2]", [1]),
        ("[#foo #_ 1 2]", [2]),
        ("[1;2]\n3 ; ]\n]", [1, 3]),
        (",, [1,,2] ,", [1, 2]),
        ('[1[2]{}(3)"x":y]', [1, [2], {}, [3], "x", "y"]),
    ],
)
def test_a_value_that_clojure_prints_is_read(text: str, value: object):
    actual = read(text)
    assert actual == value
    assert canonical_or_none(actual) == canonical_or_none(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#:a{:b 1}", {"a/b": 1}),
        ("#:a {:b :b, c -b}", {"a/b": "b", "a/c": "-b"}),
        ("#:a.b{b 1 -c 2}", {"a.b/b": 1, "a.b/-c": 2}),
        ('#:a{:c/b 1 "b" 2 3 4 nil 5 true 6 -7 8 ##Inf 9}', "mixed keys"),
        ("#:a{:_/b 1 _/c 2}", {"b": 1, "c": 2}),
        (
            "#:a{:b {:c [:d {:e 1}]} :f #:g{:h 1}, :i 1}",
            {"a/b": {"c": ["d", {"e": 1}]}, "a/f": {"g/h": 1}, "a/i": 1},
        ),
        ("#:a{[:b] :c {:d 1} :e :f 2}", {("b",): "c", "a/f": 2} | {MapKey({"d": 1}): "e"}),
        ("#:a{#_ :x :b #_ #_ 1 2 3, :c ; :x\n 4 #_ {:x 1} #x :d #x 5}", {"a/b": 3, "a/c": 4, "a/d": 5}),
        ('{:a/b 1 "#:c{" \\{}', {"a/b": 1, "#:c{": "{"}),
        ("[#_ #:a{:b 1} #:a{}]", [{}]),
    ],
)
def test_a_namespaced_map_gets_its_keys_in_full(text: str, value: object):
    mixed_keys = {"c/b": 1, "b": 2, 3: 4, None: 5, True: 6, -7: 8, math.inf: 9}
    assert read(text) == (mixed_keys if value == "mixed keys" else value)


def test_a_map_can_be_the_key_of_a_map():
    assert list(read("{{:topic [1]} 2, {:topic [3]} 4}").items()) == [
        ({"topic": (1,)}, 2),
        ({"topic": (3,)}, 4),
    ]


@pytest.mark.parametrize("opening", ["#{1 ", "{[1 ", "{{:a ", "{:a #_ "])
def test_nested_collections_are_read_in_linear_time(opening: str):
    closing = {"#{1 ": "}", "{[1 ": "] 1}", "{{:a ": "} 1}", "{:a #_ ": " 1}"}[opening]
    inner = "[" + "7 " * 20_000 + "]"
    try:
        read(opening * 400 + inner + closing * 400)
    except EdnError as error:
        assert "nested too deeply" in str(error)


def canonical_or_none(value: object) -> str | None:
    """Return a text that differs between 1, True and 1.0, which are equal in Python."""
    try:
        return canonical(value)
    except UnnameableValue:
        return None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no value"),
        ("; nothing", "no value"),
        ("#_ 1", "no value"),
        ("1 2", "more than one"),
        ("[1", "never closed"),
        ("{:a 1", "never closed"),
        ("1]", "none is open"),
        ("[1)", r"\[ needs its end"),
        ("#{1]", r"#\{ needs its end"),
        ('"abc', "string that is never closed"),
        (r'"\q"', "means nothing in a string"),
        (r'"\8"', "means nothing in a string"),
        (r'"\ud83d"', "surrogate"),
        (r"\ud83d", "surrogate"),
        (r"\nope", "not a character"),
        ("{:a}", '"a" has no value'),
        ("{:a 1 :a 2}", '"a" twice'),
        ("{[1] 1 (1) 2}", "twice"),
        ("[#foo]", "a # without a value after it"),
        ("[#:a]", "#:a without a map after it"),
        ("#:a 1", "#:a without a map after it"),
        ("#:a #_ 1 {:b 1}", "#:a without a map after it"),
        ("{:b #:a", "#:a without a map after it"),
        ("#:a{:b 1 :a/b 2}", '"a/b" twice'),
        ("#::a{:b 1}", "#::a has a meaning only in the program that wrote it"),
        ("#:{:b 1}", "means nothing"),
        ("#:a/b{:c 1}", "means nothing"),
        ("[#_]", "a # without a value after it"),
        ("007", "not a number"),
        ("12ab", "not a number"),
        ("-1x", "not a number"),
        (":", "means nothing"),
        ("^{:a 1} b", "means nothing"),
        ("#", "means nothing"),
        ("##Foo", "means nothing"),
        (f"{{{' '.join(f'{n * (2**61 - 1)} 0' for n in range(1, 2002))}}}", "more than 1000 keys"),
        ("{{:a 1} 1, {:a 1} 2}", "twice"),
        ("[" * 2000, "levels of nesting"),
        ("[" * 1000 + "]" * 1000 + "]", "none is open"),
        ("{" + "[" * 1000 + "]" * 1000 + " 1}", "nested too deeply"),
        ("{" + ("[" * 900 + "]" * 900 + " 1 ") * 2 + "}", "nested too deeply|twice"),
        ("9" * 5000, "5000 digits"),
    ],
)
def test_text_that_is_not_edn_has_a_message(text: str, message: str):
    with pytest.raises(EdnError, match=message):
        read(text)


KEYWORD = re.compile(r"[a-zA-Z][\w*!?-]*(/[a-z]+)?", re.ASCII)
words = st.from_regex(KEYWORD, fullmatch=True)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | words, inner),
)


def as_edn(value: object, draw: st.DataObject) -> str:
    """Return a random EDN notation of the value."""
    pick = draw.draw
    gap = pick(st.sampled_from([" ", ",", "  ", ", ", " ;x]\n", " #_ [a {}] "]))
    if isinstance(value, list):
        inner = gap.join(as_edn(item, draw) for item in value)
        return f"({inner})" if pick(st.booleans()) else f"[{inner}]"
    if isinstance(value, dict):
        inner = gap.join(f"{as_edn(k, draw)}{gap}{as_edn(v, draw)}" for k, v in value.items())
        return f"{pick(st.sampled_from(['', '#tag', '#a.b/c ']))}{{{inner}}}"
    if isinstance(value, str):
        return f":{value}" if KEYWORD.fullmatch(value) and pick(st.booleans()) else json.dumps(value)
    if value is None:
        return "nil"
    return json.dumps(value) + ("N" if type(value) is int and pick(st.booleans()) else "")


@settings(deadline=None)
@given(values, st.data())
def test_any_json_value_survives_as_edn(value: object, data: st.DataObject):
    assert canonical_or_none(read(as_edn(value, data))) == canonical_or_none(value)


MARKS = ["{", "}", "[", "]", "(", ")", " ", " ", ", ", ",", '"', ";", "[:poll {", "#jepsen.history.Op{"]
ATOMS = [":a", ":value", ":poll", ":nil", ":null", "nil", "null", "nilly", "true", "x", "-", ".", "/"]
NUMBERS = ["1", "-1", "1.5", "1e3", "01", "+1", "5N"]
tokens = st.sampled_from([*MARKS, *ATOMS, *NUMBERS, "[nil]", "{nil", "{:value [[:poll {1 [[0 1]]}]]}"])
small = st.recursive(
    st.none() | st.integers(-9, 99) | st.sampled_from([True, 1.5, "a", "poll"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.integers(0, 5), inner, max_size=3),
    max_leaves=8,
)


def printed(value: object) -> str:
    """Return the value as Clojure prints it."""
    if isinstance(value, list):
        return f"[{' '.join(map(printed, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{printed(k)} {printed(v)}' for k, v in value.items())}}}"
    return f":{value}" if isinstance(value, str) else "nil" if value is None else json.dumps(value)


exact = st.integers(-(1 << 63), (1 << 64) - 1)  # beyond this range the fast path returns floats
events = st.fixed_dictionaries(
    {"value": st.lists(small | st.tuples(st.just("poll"), st.dictionaries(exact, small)).map(list))},
    optional={"f": words, "other": small, "index": st.integers(-(1 << 63), 1 << 63)},
)


@settings(deadline=None)
@given(
    events.map(printed) | st.lists(tokens).map("".join) | st.lists(tokens).map(lambda t: f"{{{' '.join(t)}}}")
)
def test_the_fast_path_and_the_full_parser_never_differ(line: str):
    (fast,) = decode_usual([line])
    if fast is not None:
        full = read(line)
        assert full == fast
        assert repr(full) == repr(fast)


def test_the_fast_path_reads_the_lines_of_jepsen():
    line = (
        "{:process 0, :type :ok, :f :txn, :value [[:send 5 [3 1]] [:poll {1 [[0 1] [nil -2]], 2 []}]"
        " [:poll]], :index 1, :time 25}"
    )
    assert list(decode_usual([line, "#jepsen.history.Op" + line])) == [read(line)] * 2


@settings(deadline=None)
@given(st.text())
@example("\\8")
def test_any_text_is_read_or_is_an_edn_error(text: str):
    for document in (text, f"[{text}]", f'{{:a "{text}" :b {text}}}'):
        try:
            read_all(document)
        except EdnError as error:
            assert str(error)
