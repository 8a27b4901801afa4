"""Events: a line becomes a row. An invalid line becomes a row with an error."""

import json

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.histories.lines import parse
from checkers.histories.names import name_of
from harness.record.history_form import EVENTS, NAMES_FROM


def parsed(*lines: str | bytes, edn: bool = False, first_line: int = 0) -> list[dict]:
    encoded = [line.encode() if isinstance(line, str) else line for line in lines]
    batch = parse(encoded, edn=edn, first_line=first_line)
    batch.validate(full=True)
    assert batch.schema.equals(EVENTS)
    return batch.to_pylist()


def event(value: object = (), f: str = "txn", process: object = 0, type: str = "ok", **more: object) -> str:
    return orjson.dumps({"process": process, "type": type, "f": f, "value": value, **more}).decode()


def row_of(value: object = (), edn: bool = False, **more: object) -> dict:
    (row,) = parsed(event(value, **more), edn=edn)
    assert row["error"] is None, row["error"]
    return row


def records(rows: list[dict]) -> list[tuple[int, int, int | None]]:
    return [(row["key"], row["value"], row["offset"]) for row in rows]


def test_sends_and_polls_keep_their_order():
    row = row_of(
        [
            ["send", 1, 7],
            ["poll", {"2": [[0, 5], [3, 6]], "1": [[9, 8]]}],
            ["send", 2, [4, 8]],
            ["poll", {"2": [[4, 9]]}],
        ]
    )
    assert records(row["sends"]) == [(1, 7, None), (2, 8, 4)]
    assert records(row["polls"]) == [(2, 5, 0), (2, 6, 3), (1, 8, 9), (2, 9, 4)]


def test_a_poll_may_have_no_records():
    assert row_of([["poll"], ["poll", None], ["poll", {}], ["poll", {"1": []}]])["polls"] == []


def test_a_null_offset_is_not_known():
    row = row_of([["send", 1, [None, 7]], ["poll", {"1": [[None, 10]]}]])
    assert [r["offset"] for r in row["sends"] + row["polls"]] == [None] * 2


def test_a_fail_or_info_completion_may_leave_out_its_sends():
    for kind in ("info", "fail"):
        assert row_of(None, type=kind)["sends"] is None
        assert row_of([["poll"]], type=kind)["sends"] is None
    assert row_of([])["sends"] == []


def test_in_json_an_integer_and_its_text_are_the_same_key():
    row = row_of([["send", 12, 1], ["send", "12", 2], ["poll", {"12": [[0, 1]], "012": [[0, 1]]}]])
    assert [r["key"] for r in row["sends"]] == [12, 12]
    assert row["polls"][0]["key"] == 12
    assert all(r["key"] >= NAMES_FROM for r in row["polls"][1:])
    assert row_of(["3", 4], f="assign")["keys"] == [3, 4]


def test_in_json_minus_zero_is_a_text_and_not_an_integer():
    """No program writes the integer 0 as "-0", but "-0" may be the name of a key."""
    row = row_of([["send", "-0", 1], ["poll", {"-0": [[0, 1]], "0": [[0, 1]], "-1": [[0, 1]]}]])
    text = name_of("-0")[0]
    assert row["sends"][0]["key"] == text
    assert [r["key"] for r in row["polls"]] == [text, 0, -1]


def test_a_negative_offset_is_not_known():
    for steps in ([["send", 1, [-1, 7]]], [["poll", {"1": [[-1001, 7]]}]]):
        row = row_of(steps)
        assert records(row["sends"] + row["polls"]) == [(1, 7, None)]
    for offset in ("-1", str(-(1 << 70))):
        line = f"{{:process 0, :type :ok, :f :txn, :value [[:poll {{1 [[{offset} 7]]}}]]}}"
        (row,) = parsed(line, edn=True)
        assert records(row["polls"]) == [(1, 7, None)]
    (row,) = parsed(event([["send", 1, ["OFFSET", 7]]]).replace('"OFFSET"', str(-(1 << 70))))
    assert records(row["sends"]) == [(1, 7, None)]


@pytest.mark.parametrize("f", ["assign", "subscribe"])
@pytest.mark.parametrize("kind", ["info", "fail"])
def test_an_assign_that_did_not_return_may_have_no_keys(f: str, kind: str):
    assert row_of(None, f=f, type=kind)["keys"] == []


def test_in_edn_a_key_keeps_its_type():
    (row,) = parsed(
        '{:process 0 :type :ok :f :txn :value [[:send 1 5] [:send "1" 6] [:poll {1 [[0 5]] "1" [[0 6]]}]]}',
        edn=True,
    )
    number, text = row["sends"][0]["key"], row["sends"][1]["key"]
    assert number == 1
    assert text == name_of("1")[0]
    assert [r["key"] for r in row["polls"]] == [number, text]


def test_names_have_the_text_of_keys_and_values():
    big = (1 << 61) + 1
    row = row_of(
        [
            ["send", "x", "v"],
            ["send", "x", [0, {"b": 1, "a": [True]}]],
            ["send", "y", big],
            ["send", "y", 1.5],
        ]
    )
    names = {name["id"]: name["text"] for name in row["names"]}
    assert [names[r["value"]] for r in row["sends"]] == ['"v"', '{"a":[true],"b":1}', str(big), "1.5"]
    assert [names[r["key"]] for r in row["sends"]] == ['"x"', '"x"', '"y"', '"y"']
    assert all(NAMES_FROM <= number < 1 << 63 for number in names)
    assert row_of([["send", 1, 1 << 61]])["sends"][0]["value"] == 1 << 61


def test_values_of_different_types_are_different_values():
    row = row_of([["send", 1, value] for value in (1, True, 1.0, "1", None, [None, [1]])])
    assert len({r["value"] for r in row["sends"]}) == 6


def test_integers_beyond_64_bits_keep_all_digits():
    a, b = 10**30, 10**30 + 1
    in_json = event([["send", 1, "A"], ["send", 1, "B"]]).replace('"A"', str(a)).replace('"B"', str(b))
    in_edn = f"{{:process 0, :type :ok, :f :send, :value [[:send 1 {a}] [:send 1 {b}]]}}"
    for (row,) in (parsed(in_json), parsed(in_edn, edn=True), parsed(in_edn.replace(" ", "  "), edn=True)):
        assert [name["text"] for name in row["names"]] == [str(a), str(b)]


def test_only_sends_and_transactions_write_and_only_polls_and_transactions_read():
    steps = [["send", 1, 7], ["poll", {"1": [[0, 7]]}]]
    assert [len(row_of(steps, f="send")[column]) for column in ("sends", "polls")] == [1, 0]
    assert [len(row_of(steps, f="poll")[column]) for column in ("sends", "polls")] == [0, 1]
    assert [len(row_of(steps, f="debug")[column]) for column in ("sends", "polls")] == [0, 0]


def test_a_process_without_a_number_may_have_any_value():
    row = row_of("anything", process="nemesis", type="info", f="kill")
    assert (row["process"], row["f"], row["sends"]) == (None, "kill", [])


def test_a_rebalance_log_has_its_keys():
    log = [{"keys": [1, "2"]}, {"partitions": [3]}, {"other": 1}, [4, 5], 6, "7"]
    assert row_of([], **{"rebalance-log": log})["rebalanced"] == [1, 2, 3, 4, 5, 6, 7]
    assert row_of([])["rebalanced"] is None


def test_isolation_and_the_other_fields_are_read():
    row = row_of([], isolation="read_uncommitted", index=3, time=4, unknown={"a": 1})
    assert (row["isolation"], row["index"], row["time"]) == ("read_uncommitted", 3, 4)
    assert row_of([])["isolation"] is None


def test_in_json_a_long_integer_and_its_text_are_the_same_key():
    key = 10**41
    polled = row_of([["poll", {str(key): [[0, 1]]}]], f="poll")
    (sent,) = parsed(event([["send", "K", 1]], f="send").replace('"K"', str(key)))
    assert sent["sends"][0]["key"] == polled["polls"][0]["key"]


def test_maps_in_unusual_positions_are_read():
    row = row_of([], error={"a": {"b": [{"c": 1}]}}, process=3)
    assert row["process"] == 3
    (row,) = parsed(event([["poll", {"x": [[0, '":']]}]]))
    assert row["polls"][0]["value"] is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"process":0,"process":1,"type":"ok","f":"txn","value":[]}', '"process" twice'),
        (
            '{"process":0,"type":"ok","f":"poll","value":[["poll",{"x":[[0,1]],"x" : [[1,2]]}]]}',
            '"x" twice',
        ),
        ('{"process":0,"process"  :1,"type":"ok","f":"txn","value":[]}', '"process" twice'),
        ('{"process":0,"process"\r:1,"type":"ok","f":"txn","value":[]}', '"process" twice'),
        ("[]", "an event is a map, not []: one event a line is expected"),
        (
            f"[{event()},{event()}]",
            "`jq -c '.[]' FILE > EVENTS.jsonl` writes each event of a list on its own line",
        ),
        ("null", "an event is a map, not null"),
        ("{}", "`type` is invoke, ok, fail or info, not null"),
        (event(type="done"), 'not "done"'),
        (event(process=True), "`process` is an integer or a name, not true"),
        (event(process=1.5), "not 1.5"),
        (event(process=None), "`process` is an integer or a name, not null"),
        (event(f=None), "`f` is the name"),
        (event(process=0).replace(":0", ":99999999999999999999"), "beyond 2^63"),
        (event(time=1.5), "`time` is an integer, not 1.5"),
        (event(index=True), "`index` is an integer, not true"),
        (event(None), "`value` is a list of micro-operations, not null"),
        (event({"1": 2}), 'not {"1": 2}'),
        (event([1]), "a micro-operation is a list, not 1"),
        (event([[]]), "a micro-operation is a list, not []"),
        (event([["read", 1]]), 'a send or a poll, not ["read", 1]'),
        (event([["send", 1]]), 'a send is ["send", key, value]'),
        (event([["send", 1, [1, 2, 3]]]), "value or [offset, value], not [1, 2, 3]"),
        (event([["send", 1, [True, 2]]]), "an offset is an integer or null, not true"),
        (event([["send", 1, ["a", 2]]]), 'not "a"'),
        (event([["send", None, 2]]), "a key is a string or an integer, not null"),
        (event([["send", 1.5, 2]]), "a key is a string or an integer, not 1.5"),
        (event([["send", 1, [1 << 63, 2]]]), "an offset is 9223372036854775808, beyond 2^63"),
        (event([["poll", {}, 1]]), 'a poll is ["poll", records]'),
        (event([["poll", [1]]]), "a poll returns a map"),
        (event([["poll", {"1": {"0": 1}}]]), "a poll returns a list"),
        (event([["poll", {"1": None}]]), "a poll returns a list"),
        (event([["poll", {"1": [1]}]]), "a poll returns [offset, value], not 1"),
        (event([["poll", {"1": [[1, 2, 3]]}]]), "a poll returns [offset, value]"),
        (event([["poll", {"1": [[1.0, 2]]}]]), "an offset is an integer or null, not 1.0"),
        (event([["send", 1, 1e300]]), "a key or value is a number that is not exact"),
        (event(3, f="assign"), "the value of assign is a list of keys, not 3"),
        (event(None, f="assign"), "the value of assign is a list of keys, not null"),
        (event(None, f="subscribe", type="invoke"), "the value of subscribe is a list of keys, not null"),
        (event([[1]], f="subscribe"), "a key is a string"),
        (event(isolation="serial"), 'not "serial"'),
        (event([], **{"rebalance-log": {"keys": [1]}}), "`rebalance-log` is a list"),
        (event([], **{"rebalance-log": [{"keys": 1}]}), "are a list, not 1"),
        ('{"a":NaN}', "this is not JSON"),
        ('{"a":"\\ud800"}', "this is not JSON"),
        ('{"process":0', "this is not JSON"),
        ("[" * 5000, "nested too deeply"),
        ('{"a":' + "9" * 5000 + "}", "this is not JSON"),
        ('{"a":1000000000000000000000,"b":' + "[" * 1000 + "]" * 1000 + "}", "nested too deeply"),
        ("[", "`jq -c '.[]' FILE > EVENTS.jsonl` writes each event of a list on its own line"),
        ('[{"process":0},', "one event a line is expected"),
        ("]", "one event a line is expected"),
        ("  [  ", "one event a line is expected, but this is part of a list over several lines"),
        ("{", "`jq -c . FILE > EVENTS.jsonl` writes each event on its own line"),
        (
            '{ "process": 0,',
            (
                "one event a line is expected, but this is part of an event over several lines, "
                "or an event that is cut off"
            ),
        ),
        (
            '  "process": 0,',
            (
                "one event a line is expected, but this is part of an event over several lines, "
                "or an event that is cut off"
            ),
        ),
        ('  "value": [', "one event a line is expected"),
        ("}", "one event a line is expected"),
        ('{"process":0', "unexpected end of data, at character 13; one event a line is expected"),
        (f"{event()} {event()}", "this is not JSON: unexpected content after document"),
        (b'{"a":"\xff"}', "this is not JSON"),
    ],
)
def test_an_invalid_line_has_a_message(line: str | bytes, message: str):
    (row,) = parsed(line)
    assert message in row["error"]
    assert all(row[name] is None for name in EVENTS.names if name not in {"line", "error"})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[", "in Clojure, `(run! prn events)` writes each event on its own line"),
        ("[{:process 0}", "one event a line is expected, but this is part of a list over several lines"),
        ("]", "one event a line is expected"),
        ("[{:process 0} {:process 1}]", "one event a line is expected; in Clojure, `(run! prn events)`"),
        ("{:process 0,", "continues on the next line; one event a line is expected"),
        ("{:process 0}]", "this is not EDN: a ] where none is open"),
        ("{:process 0} {:process 1}", "this line has several"),
        ("{:process 0} 7", "after it comes 7"),
        (
            "{:process 0, :type :ok, :f :txn, :value [[:send 1 ##NaN]]}",
            "a key or value is a number that is not exact",
        ),
        ("{:process 0, :type :ok, :f :txn, :value [[:send nil 1]]}", "a key is"),
        (
            "{:process 0, :type :ok, :f :txn, :value [[:poll {1 [[18446744073709551617 1]]}]]}",
            "is 18446744073709551617, beyond",
        ),
        (b'{:a "\xff"}', "not UTF-8, at byte 6"),
    ],
)
def test_an_invalid_edn_line_has_a_message(line: str | bytes, message: str):
    (row,) = parsed(line, edn=True)
    assert message in row["error"]


def test_a_replacement_character_in_the_text_is_valid():
    line = '{"process":0,"type":"ok","f":"x","value":"\N{REPLACEMENT CHARACTER}"}'
    assert parsed(line)[0]["error"] is None
    assert parsed(line.replace('":', '" '), edn=True)[0]["error"] is None


def test_an_invalid_line_does_not_change_the_rows_of_other_lines():
    good, bad = event([["send", 1, 2]]), event([["send", "z", 5], ["send", 1]])
    rows = parsed(good, bad, good)
    assert [row["sends"] and len(row["sends"]) for row in rows] == [1, None, 1]
    named = parsed(bad, event([["send", "z", 5]]))[1]
    assert [name["text"] for name in named["names"]] == ['"z"']


def test_blank_lines_are_counted_but_have_no_row():
    assert [row["line"] for row in parsed("", event(), " \r", event() + "\r", first_line=5)] == [6, 8]
    lines = ["; a comment", "{:process 0 :type :ok :f :x}", " ,", "#_ {}", "{:process 0, :type :ok, :f :x}\r"]
    assert [row["line"] for row in parsed(*lines, edn=True)] == [1, 4]


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode), st.booleans())
def test_any_bytes_are_at_most_one_row(line: bytes, edn: bool):
    assert len(parse([line], edn=edn)) <= 1


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 70)
    | st.floats()
    | st.sampled_from(["send", "poll", "x", "1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["1", "x", "keys", "partitions"]), inner, max_size=3)
    ),
    max_leaves=12,
)
micro = st.lists(
    st.tuples(st.just("send"), junk, junk).map(list)
    | st.tuples(st.just("poll"), st.dictionaries(st.sampled_from(["1", "x"]), st.lists(junk))).map(list)
    | junk
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["index", "time", "isolation", "rebalance-log"]), junk),
    micro | junk,
    st.sampled_from(["txn", "send", "poll", "assign", "subscribe", "crash"]),
)
def test_any_event_is_a_row(fields: dict, value: object, f: str):
    line = json.dumps({"process": 1, "type": "ok", "f": f, "value": value, **fields})
    assert len(parsed(line)) == 1


def test_an_empty_batch_has_the_columns():
    assert parse([], edn=False).schema == EVENTS
    assert parse([b""], edn=True).num_rows == 0
    assert isinstance(parse([], edn=True), pa.RecordBatch)
