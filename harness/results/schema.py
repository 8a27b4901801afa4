"""Make from the structs of `verdict.json` what is published: a JSON Schema, tables for docs/verdict.md, public types.

python -m harness.results.schema docs fencepost/verdict_types.py
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from harness.results.conclusions import (
    Affected,
    Contrast,
    ControlRun,
    NotDecided,
    Origin,
    OriginKind,
    OverTime,
)
from harness.results.example import Example, Operation
from harness.results.reasons import Reason, ReasonCode
from harness.results.recovery import EntryCounts, Lag, Liveness, PartitionLag
from harness.results.verdict import (
    AnomalyFindings,
    FaultReport,
    IndeterminateOperations,
    MembershipChange,
    Verdict,
)

DOCUMENTS: Mapping[type[msgspec.Struct], str] = {
    Reason: "ReasonDocument",
    Contrast: "ContrastDocument",
    OverTime: "OverTimeDocument",
    Affected: "AffectedDocument",
    Origin: "OriginDocument",
    AnomalyFindings: "AnomalyDocument",
    Liveness: "LivenessDocument",
    FaultReport: "FaultDocument",
    MembershipChange: "ChurnDocument",
    EntryCounts: "EntryCountsDocument",
    PartitionLag: "PartitionLagDocument",
    Lag: "LagDocument",
    IndeterminateOperations: "UnsettledDocument",
    NotDecided: "NotDecidedDocument",
    ControlRun: "ControlDocument",
    Verdict: "VerdictDocument",
}
"""The structs of `verdict.json`, and the names of their public types. A struct comes after those that it contains."""
HEAD = '''"""The types of the content of `verdict.json`. `make docs` makes this file from `harness/results`.

It imports no other package of Fencepost, because it is loaded into a user's process.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict
'''
TABLE = re.compile(r"(<!-- table of (\w+) -->\n).*?(<!-- end -->)", re.S)


def json_schema() -> dict[str, Any]:
    """Return the schema of `verdict.json`, as draft 2020-12. Keys that are not in it are allowed."""
    (root,), parts = msgspec.json.schema_components([Verdict], schema_hook=lambda kind: {"type": "object"})
    for struct in DOCUMENTS:
        parts[struct.__name__]["required"] = [key for key, _, _, required in _keys(struct) if required]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": parts}


def public_types() -> str:
    """Return the module with a TypedDict for each struct."""
    return HEAD + "".join(f"\n\n{_typed_dict(struct)}" for struct in DOCUMENTS)


def with_tables(page: str) -> str:
    """Return the page docs/verdict.md with the current tables in place of those that it has."""
    structs = {struct.__name__: struct for struct in DOCUMENTS}

    def table(match: re.Match[str]) -> str:
        rows = (f"| `{key}` | {meaning} |" for key, _, meaning, _ in _keys(structs[match[2]]))
        return match[1] + "\n".join(["| key | value |", "| --- | --- |", *rows, match[3]])

    return TABLE.sub(table, page)


def _keys(struct: type[msgspec.Struct]) -> Iterator[tuple[str, object, str, bool]]:
    """Yield each key of a struct: its name, type and meaning, and whether it is always written."""
    config = struct.__struct_config__
    if config.tag_field is not None:
        yield config.tag_field, type(config.tag), f"{config.tag}", True
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        omitted = config.omit_defaults and (
            field.default is not msgspec.NODEFAULT or field.default_factory in (dict, list)
        )
        yield field.name, hints[field.name], _meaning(hints[field.name]), not omitted


def _meaning(hint: object) -> str:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    texts = [extra.description for extra in extras if isinstance(extra, msgspec.Meta) and extra.description]
    return texts[-1] if texts else ""


def _typed_dict(struct: type[msgspec.Struct]) -> str:
    meaning = inspect.getdoc(struct).split("\n\n")[0].replace("\n", "\n    ")  # type: ignore[union-attr]
    lines = [f"class {DOCUMENTS[struct]}(TypedDict):", f'    """{meaning}"""', ""]
    for key, hint, _, required in _keys(struct):
        kind = _python(hint)
        # A key that may be left out is left out instead of null.
        lines.append(f"    {key}: " + (kind if required else f"NotRequired[{kind.removesuffix(' | None')}]"))
    if struct is Verdict:
        lines.append(
            "    error: NotRequired[str]  # why the history could not be read; then there are only three keys"
        )
    return "\n".join(lines) + "\n"


def _python(hint: object) -> str:
    """Return a type as Python writes it, for the public types."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, arguments))}]"
    if origin in (Union, UnionType):
        return " | ".join(map(_python, arguments))
    if origin in (Annotated, tuple):
        first = _python(arguments[0])
        return first if origin is Annotated else f"Sequence[{first}]"
    if origin in (Mapping, Sequence):
        return f"{origin.__name__}[{', '.join(map(_python, arguments))}]"
    names = {
        Example: "Mapping[str, Any]",
        Operation: "Mapping[str, Any]",
        ReasonCode: "str",
        OriginKind: "str",
        type(None): "None",
    }
    assert isinstance(hint, type)
    return {**names, **DOCUMENTS}.get(hint, hint.__name__)


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    document = docs / "verdict.md"
    document.write_text(with_tables(document.read_text(encoding="utf-8")), encoding="utf-8")
    schema = json.dumps(json_schema(), indent=1, ensure_ascii=False)
    (docs / "verdict.schema.json").write_text(schema + "\n", encoding="utf-8")
    Path(sys.argv[2]).write_text(public_types(), encoding="utf-8")
