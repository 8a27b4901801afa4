"""The types of the public API: they match the options and verdict.json, and mypy uses them."""

import json
import os
import subprocess
import sys
import types
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from fencepost.api import Result
from fencepost.api_types import CheckOptions, RunOptions
from fencepost.commands import check
from harness.results.schema import DOCUMENTS, json_schema, public_types, with_tables
from harness.results.verdict import Validity, Verdict
from harness.settings.kinds import OneOf
from harness.settings.options import FIELDS, Options
from tests.golden import corpus
from tests.support.synthetic_store import make_verdict

ROOT = Path(__file__).parents[3]
GOLDEN = Path(corpus.__file__).parent
OPTION_TYPES = get_type_hints(Options)


def members(hint: object) -> set[object]:
    """The types of a union. Generic mappings and tuples are returned without their arguments."""
    members_of_union = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {
        get_origin(member) if get_origin(member) in (Mapping, tuple) else member
        for member in members_of_union
    }


def test_run_options_has_the_key_of_every_option() -> None:
    assert [key.replace("_", "-") for key in RunOptions.__annotations__] == list(FIELDS)


@pytest.mark.parametrize("key", FIELDS)
def test_a_key_of_run_options_has_the_type_of_the_option(key: str) -> None:
    allowed_types = members(get_type_hints(RunOptions)[key.replace("-", "_")])
    kind = FIELDS[key].metadata["kind"]
    assert type(None) in allowed_types
    if isinstance(kind, OneOf):
        (choice,) = allowed_types - {type(None)}
        assert get_args(choice) == kind.words
    else:
        option_types = {
            Mapping if member is dict else member for member in members(OPTION_TYPES[FIELDS[key].name])
        }
        assert option_types <= allowed_types


def test_check_options_has_the_key_of_every_flag() -> None:
    flags = {member.name for member in check.command.params} - {"histories", "update", "as_json"}
    assert set(CheckOptions.__annotations__) == flags


STORED = sorted(GOLDEN.glob("*/expected/verdict.json"))


def test_what_is_published_about_verdict_json_is_current() -> None:
    """`make docs` makes these files."""
    assert (ROOT / "fencepost" / "verdict_types.py").read_text() == public_types()
    published = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    assert published == json.loads(json.dumps(json_schema()))
    page = (ROOT / "docs" / "verdict.md").read_text()
    assert with_tables(page) == page and page.count("<!-- table of ") == len(DOCUMENTS) - 1


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parts[-3])
def test_a_verdict_of_the_corpus_has_the_published_form(path: Path) -> None:
    Draft202012Validator(json_schema()).validate(json.loads(path.read_text()))


def test_the_published_form_refuses_a_missing_key_and_a_wrong_type() -> None:
    validator = Draft202012Validator(json_schema())
    body = json.loads(make_verdict(Validity.INVALID).line())
    assert validator.is_valid(body | {"color": "red"})
    assert not validator.is_valid({key: value for key, value in body.items() if key != "left"})
    assert not validator.is_valid(body | {"valid": "maybe"})
    del body["faults"][0]["acted"]
    assert not validator.is_valid(body)


def result(stored_verdict: Verdict) -> Result:
    return Result(None, 0, json.loads(stored_verdict.line()), Path("s"))


def test_a_result_has_its_forbidden_and_its_allowed_anomalies() -> None:
    result_ = result(make_verdict(Validity.INVALID))
    assert "reprocessed-input" in result_.anomalies and "contended-id" not in result_.anomalies
    assert result_.allowed_anomalies == {"contended-id"}
    assert result_.reasons == frozenset()


def test_a_result_has_its_faults_and_the_codes_of_its_reasons() -> None:
    unknown = result(make_verdict(Validity.UNKNOWN))
    assert [fault["fault"] for fault in unknown.faults] == ["kill-broker", "pause-worker", "partition"]
    assert unknown.reasons == {"fault-did-not-act", "reader-short"}
    assert unknown.anomalies == frozenset()


def test_the_result_of_an_unreadable_history_has_no_anomalies() -> None:
    unread = replace(
        result(make_verdict(Validity.VALID)), verdict={"history": "h", "valid": "unknown", "error": "e"}
    )  # type: ignore[typeddict-item]
    assert (unread.anomalies, unread.allowed_anomalies, unread.reasons, list(unread.faults)) == (
        frozenset(), frozenset(), frozenset(), [],
    )  # fmt: skip


CORRECT_FILE = """
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
WRONG_FILE = """
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
    environment = {**os.environ, "MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.mark.processes
def test_mypy_accepts_a_correct_file(tmp_path: Path) -> None:
    process = mypy(tmp_path, CORRECT_FILE)
    assert process.returncode == 0, process.stdout


@pytest.mark.processes
def test_mypy_reports_each_wrong_line(tmp_path: Path) -> None:
    lines = [
        line.split(": ")[0] for line in mypy(tmp_path, WRONG_FILE).stdout.splitlines() if ": error: " in line
    ]
    assert lines == [f"user.py:{number}" for number in (4, 5, 6, 7, 8)]
