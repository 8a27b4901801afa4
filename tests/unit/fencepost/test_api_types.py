"""The types of the public API: they say what the options and verdict.json are, and mypy reads them."""

import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from fencepost.api import Result
from fencepost.api_types import CheckOptions, RunOptions, VerdictDocument
from fencepost.commands import check
from harness.results.membership_changes import MembershipChange
from harness.results.reasons import Reason, ReasonCode
from harness.results.verdict import Validity, Verdict
from harness.settings.kinds import OneOf
from harness.settings.options import FIELDS, Options
from tests.support.synthetic_store import verdict

HOUSE = Path(__file__).parents[3]
STORED = get_type_hints(Options)


def members(hint: object) -> set[object]:
    """The types of a union, with tables as Mapping."""
    united = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {get_origin(one) if get_origin(one) in (Mapping, tuple) else one for one in united}


def test_a_run_takes_every_option_and_no_other() -> None:
    assert [key.replace("_", "-") for key in RunOptions.__annotations__] == list(FIELDS)


@pytest.mark.parametrize("key", FIELDS)
def test_an_option_of_a_run_has_the_type_of_the_option(key: str) -> None:
    typed = members(get_type_hints(RunOptions)[key.replace("-", "_")])
    kind = FIELDS[key].metadata["kind"]
    assert type(None) in typed
    if isinstance(kind, OneOf):
        (choice,) = typed - {type(None)}
        assert get_args(choice) == kind.words
    else:
        stored = {Mapping if one is dict else one for one in members(STORED[FIELDS[key].name])}
        assert stored <= typed


def test_a_check_takes_its_options() -> None:
    flags = {one.name for one in check.command.params} - {"histories", "update", "as_json"}
    assert set(CheckOptions.__annotations__) == flags


MOVED = MembershipChange("shop", "shop-4.0", None, 1.0, 2.0, to=("a/0",))
WARNING = Reason(ReasonCode.UNEXPECTED_END, "shop-1.0 ended by itself")


@pytest.mark.parametrize(
    "judged",
    [
        verdict(Validity.VALID, warnings=[WARNING]),
        verdict(Validity.INVALID, churn=[MOVED], requests={"EndTxn": [5]}),
        verdict(Validity.UNKNOWN),
        verdict(Validity.UNKNOWN, seed=None),
    ],
)
def test_a_verdict_is_as_its_type_says(judged: Verdict) -> None:
    assert misfits(json.loads(judged.line()), VerdictDocument, "verdict") == []


def test_a_key_that_the_type_does_not_have_is_noticed() -> None:
    body = json.loads(verdict(Validity.VALID).line())
    assert misfits({**body, "color": "red"}, VerdictDocument, "verdict") == [
        "verdict.color is not in the type"
    ]
    del body["faults"][0]["acted"]
    assert misfits(body, VerdictDocument, "verdict") == ["verdict.faults.acted is missing"]
    assert misfits({**body, "seed": "7"}, VerdictDocument, "verdict")[0].startswith("verdict.seed is '7'")


def misfits(value: Any, hint: Any, where: str) -> list[str]:
    """Where a document differs from its type."""
    if get_origin(hint) is NotRequired:
        hint = get_args(hint)[0]
    if is_typeddict(hint):
        hints = get_type_hints(hint)
        lacking = [f"{where}.{key} is missing" for key in sorted(hint.__required_keys__ - value.keys())]
        strange = [f"{where}.{key} is not in the type" for key in value if key not in hints]
        deeper = [misfits(body, hints[key], f"{where}.{key}") for key, body in value.items() if key in hints]
        return [*lacking, *strange, *chain(*deeper)]
    if get_origin(hint) is Sequence:
        if not isinstance(value, list):
            return [f"{where} is {value!r}, not a list"]
        return [*chain(*(misfits(one, get_args(hint)[0], where) for one in value))]
    if get_origin(hint) is Mapping:
        if not isinstance(value, dict):
            return [f"{where} is {value!r}, not a table"]
        return [*chain(*(misfits(one, get_args(hint)[1], where) for one in value.values()))]
    if get_origin(hint) in (Union, types.UnionType):
        fits = any(misfits(value, one, where) == [] for one in get_args(hint))
    elif get_origin(hint) is Literal:
        fits = value in get_args(hint)
    else:
        fits = hint is Any or type(value) is hint or (hint is float and type(value) is int)
    return [] if fits else [f"{where} is {value!r}, not {hint}"]


def result(judged: Verdict) -> Result:
    return Result(None, 0, json.loads(judged.line()), Path("s"))


def test_a_result_names_what_makes_it_invalid_and_what_is_allowed() -> None:
    found = result(verdict(Validity.INVALID))
    assert "reprocessed-input" in found.anomalies and "contended-id" not in found.anomalies
    assert found.allowed_anomalies == {"contended-id"}
    assert found.reasons == frozenset()


def test_a_result_names_its_faults_and_the_codes_of_its_reasons() -> None:
    unknown = result(verdict(Validity.UNKNOWN))
    assert [fault["fault"] for fault in unknown.faults] == ["kill-broker", "pause-worker", "partition"]
    assert unknown.reasons == {"fault-did-not-act", "reader-short"}
    assert unknown.anomalies == frozenset()


def test_a_history_that_could_not_be_read_names_nothing() -> None:
    unread = replace(
        result(verdict(Validity.VALID)), verdict={"history": "h", "valid": "unknown", "error": "e"}
    )  # type: ignore[typeddict-item]
    assert (unread.anomalies, unread.allowed_anomalies, unread.reasons, list(unread.faults)) == (
        frozenset(), frozenset(), frozenset(), [],
    )  # fmt: skip


USER = """
import fencepost

options: fencepost.RunOptions = {"workload": "shop", "seed": 7}
result = fencepost.run(nemesis=["kill-broker"], time_limit=30, broker={"log.segment.bytes": "1"}, timeout_s=90)
again = fencepost.run(**options)
checked = fencepost.check([result.folder, "history.edn"], allow="G0", blind=True)
assert "lost-input" not in result.anomalies and "not-drained" not in result.reasons
struck: list[str] = [fault["struck"] for fault in result.faults if fault["acted"]]
count: int = result.verdict["anomalies"]["lost-input"]["count"]
remedies: list[str] = [reason.get("remedy", "") for reason in result.verdict["unknown_because"]]

def test_the_shop(fencepost: fencepost.RunFunction) -> None:
    fencepost(defect="no-rewind", workers=2).assert_valid()
"""
WRONG = """
import fencepost

result = fencepost.run(time_limt=30)
fencepost.run(workers="many")
fencepost.check("h", nemesis="none")
result.verdict["anomalys"]
result.faults[0]["acted"].upper()
"""


def mypy(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    file = folder / "user.py"
    file.write_text(text)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        file.name,
    ]
    environment = {**os.environ, "MYPYPATH": str(HOUSE), "MYPY_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_mypy_accepts_a_users_file(tmp_path: Path) -> None:
    done = mypy(tmp_path, USER)
    assert done.returncode == 0, done.stdout


def test_mypy_finds_the_mistakes_in_a_users_file(tmp_path: Path) -> None:
    lines = [line.split(": ")[0] for line in mypy(tmp_path, WRONG).stdout.splitlines() if ": error: " in line]
    assert lines == [f"user.py:{number}" for number in (4, 5, 6, 7, 8)]
