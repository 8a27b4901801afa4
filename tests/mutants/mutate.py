"""The mutants of a file: copies of it with one condition, join key, bound or comparison changed."""

import ast
import copy
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "min_by": "max_by", "max_by": "min_by", "lag": "lead", "lead": "lag",
    "every": "some", "some": "every", "exists": "forall", "forall": "exists",
    "first": "last", "last": "first", "asc": "desc", "desc": "asc",
    "minimum": "maximum", "maximum": "minimum",
}  # fmt: skip
JOINS = {"left": "inner", "inner": "left", "left_semi": "left_anti", "left_anti": "left_semi"}
KEYED = frozenset({"partitionBy", "groupBy", "order_by", "begins", "codes", "orderBy", "repartition"})
"""Calls whose arguments are keys: each can be left out."""
TEXTS = frozenset({"where", "filter", "expr", "selectExpr"})
"""Calls whose text is a condition in SQL."""
IN_SQL = (
    (r"\band\b", "or"), (r"\bor\b", "and"), (r"\bnot\b", ""), (r"<=", "<"), (r">=", ">"), (r"!=", "="),
    (r"(?<![<>!])=", "!="), (r"(?<=\s)<(?=\s)", "<="), (r"(?<=\s)>(?=\s)", ">="), (r"\+ 1\b", ""), (r"- 1\b", ""),
    (r"\bis not null\b", "is null"), (r"\bis null\b", "is not null"),
    (r"\bmin\(", "max("), (r"\bmax\(", "min("), (r"\bexists\(", "forall("), (r"\bforall\(", "exists("),
    (r"\blag\(", "lead("), (r"\blead\(", "lag("), (r"\bgreatest\(", "least("), (r"\bleast\(", "greatest("),
    (r"(?<=partition by )run, ", ""), (r"\b1 preceding\b", "current row"),
)  # fmt: skip
IN_SQL_ALL = ("checkers/anomalies/", "checkers/stored/", "checkers/findings.py", "checkers/gaps/facts.py")
"""Files in which every string is SQL, except docstrings and text that is quoted within the SQL."""
QUOTED = re.compile(r"'[^']*'")


@dataclass(frozen=True)
class Mutant:
    """A changed file."""

    file: str
    line: int
    change: str
    source: str

    @property
    def key(self) -> str:
        """A digest of the changed file without its comments."""
        return hashlib.sha256(f"{self.file}\n{self.source}".encode()).hexdigest()[:16]


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """All mutants of a file, in the order of its lines."""
    tree = ast.parse(source)
    said = {id(inner) for node in ast.walk(tree) for kind in _annotations(node) for inner in ast.walk(kind)}
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    said |= {id(value) for value in statements if isinstance(value, ast.Constant)}
    said |= {id(inner) for statement in _words(tree) for inner in ast.walk(statement)}
    sites = list(ast.walk(tree))
    sql = file.startswith(IN_SQL_ALL)
    found = []
    for number, node in enumerate(sites):
        if id(node) in said:
            continue
        for turn in range(len(list(_changes(copy.deepcopy(node), sql)))):
            changed = copy.deepcopy(tree)
            here = list(ast.walk(changed))[number]
            described, act = list(_changes(here, sql))[turn]
            act()
            text = ast.unparse(ast.fix_missing_locations(changed))
            found.append(Mutant(file, getattr(node, "lineno", 0), described, text))
    plain = ast.unparse(tree)
    yield from sorted((one for one in found if one.source != plain), key=lambda one: one.line)


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """What says the kind of something, and does nothing."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
        yield node.annotation
    if isinstance(node, ast.FunctionDef) and node.returns:
        yield node.returns


def _words(tree: ast.Module) -> list[ast.stmt]:
    """The statements that describe an anomaly: the first function that takes an `Example`, and all after it.

    The tests of the sentences cover them.
    """
    takes = [
        isinstance(one, ast.FunctionDef)
        and any(
            isinstance(arg.annotation, ast.Name) and arg.annotation.id == "Example" for arg in one.args.args
        )
        for one in tree.body
    ]
    return tree.body[takes.index(True) :] if True in takes else []


Change = tuple[str, "Act"]


class Act:
    """Sets an attribute, or an item, of a node."""

    def __init__(self, target: object, where: str | int, value: object) -> None:
        self._target, self._where, self._value = target, where, value

    def __call__(self) -> None:
        if isinstance(self._where, int):
            assert isinstance(self._target, list)
            if self._value is None:
                del self._target[self._where]
            else:
                self._target[self._where] = self._value
        else:
            setattr(self._target, self._where, self._value)


def _changes(node: ast.AST, sql: bool) -> Iterator[Change]:
    """What can be changed at one node, and how. `sql`: every text is SQL."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            if type(op) in COMPARISONS:
                other = COMPARISONS[type(op)]()
                yield f"{_name(op)} becomes {_name(other)}", Act(node.ops, at, other)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        other_op = OPERATORS[type(node.op)]()
        yield f"{_name(node.op)} becomes {_name(other_op)}", Act(node, "op", other_op)
    elif isinstance(node, ast.BoolOp):
        swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{_name(node.op)} becomes {_name(swapped)}", Act(node, "op", swapped)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not):
        yield f"{_name(node.op)} goes", _unwrap(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, sql)
    elif sql and isinstance(node, ast.Constant) and isinstance(node.value, str):
        for changed in _of_sql(node.value):
            yield f"in SQL: {changed}", Act(node, "value", changed)


def _of_sql(text: str) -> Iterator[str]:
    """An expression, with one thing in it changed."""
    quoted = [match.span() for match in QUOTED.finditer(text)]
    for pattern, instead in IN_SQL:
        for match in re.finditer(pattern, text):
            if not any(start < match.start() < end for start, end in quoted):
                yield text[: match.start()] + instead + text[match.end() :]


def _unwrap(node: ast.UnaryOp) -> "Act":
    """`~~x` is `x`, for columns, arrays and booleans alike."""
    return Act(node, "operand", ast.UnaryOp(node.op, node.operand))


def _of_call(call: ast.Call, sql: bool) -> Iterator[Change]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in NAMES and isinstance(call.func, ast.Attribute):
        yield f"{name} becomes {NAMES[name]}", Act(call.func, "attr", NAMES[name])
    for keyword in call.keywords:
        if keyword.arg == "how" and isinstance(keyword.value, ast.Constant):
            other = JOINS.get(str(keyword.value.value))
            if other:
                yield (
                    f"a {keyword.value.value} join becomes {other}",
                    Act(keyword, "value", ast.Constant(other)),
                )
        if keyword.arg == "on" and isinstance(keyword.value, ast.List) and len(keyword.value.elts) > 1:
            for at, element in enumerate(keyword.value.elts):
                yield f"the join key {ast.unparse(element)} goes", Act(keyword.value.elts, at, None)
    if name in KEYED and len(call.args) > 1:
        for at, argument in enumerate(call.args):
            yield f"{ast.unparse(argument)} goes from {name}", Act(call.args, at, None)
    if not sql and name in TEXTS and call.args and isinstance(call.args[0], ast.Constant):
        for changed in _of_sql(str(call.args[0].value)):
            yield f"in SQL: {changed}", Act(call.args, 0, ast.Constant(changed))
    if name == "where" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        yield f"where {ast.unparse(call.args[0])} goes", Act(call.args, 0, ast.Constant("true"))


def _name(op: ast.AST) -> str:
    return type(op).__name__
