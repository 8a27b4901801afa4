"""The README is a test: its commands exist with these options, and its tables are what there is."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import api, registry
from fencepost.cli import COMMANDS, CommandGroup
from fencepost.commands import options as asking
from fencepost.commands.list import KINDS

HOUSE = Path(__file__).resolve().parents[3]
TEXTS = [HOUSE / "README.md", HOUSE / "Makefile", HOUSE / ".ci/run", *sorted((HOUSE / "docs").rglob("*.md"))]
README = (HOUSE / "README.md").read_text()


def commands() -> Iterator[str]:
    for path in TEXTS:
        text = path.read_text().replace("\\\n", " ").replace("$(BIN)", ".venv/bin")
        for line in text.splitlines():
            for match in re.finditer(
                r"(?:^@?|`|; |\"  )(?:\.venv/bin/)?(fencepost [a-z-][^`;|\"]*)", line.strip()
            ):
                yield match[1]
    for name in COMMANDS:
        help_text = CommandGroup().get_command(None, name).help
        yield from re.findall(r"^ *(fencepost .*)$", help_text, re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_that_is_told_exists_with_these_options(command: str):
    _, name, *arguments = shlex.split(command, comments=True)
    known = CommandGroup().get_command(None, name)
    assert known, f"no command {name}"
    if name == "run":
        arguments = [word for word in arguments if word != "--help"]
    given = known.make_context(name, arguments).params
    if name == "run":
        sets, _ = given.pop("sets"), (given.pop("config"), given.pop("as_json"))
        options = asking.options_from(given, sets, None)
        assert options.validated(registry.known_names()) == options
    if name == "list":
        assert given["kind"] in KINDS


def test_enough_commands_were_looked_at():
    assert len(set(commands())) >= 20


def table(page: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", (HOUSE / "docs" / page).read_text(), re.MULTILINE)


def test_the_faults_are_those_that_there_are():
    assert table("faults.md") == list(registry.nemeses())


def test_the_defects_are_those_that_there_are():
    assert table("defects.md") == list(registry.defects())


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 150


def test_the_readme_opens_with_a_history_of_five_lines():
    history = README.split("```text\n")[1].split("```")[0]
    assert len(history.splitlines()) == 5
    assert README.index("```text") < 600


def test_links_lead_somewhere():
    for path in TEXTS:
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_files_that_the_texts_name_are_there():
    rooms = "fencepost|harness|workloads|nemeses|checkers|reports|tests"
    for path in TEXTS:
        for name in re.findall(rf"`((?:{rooms})/[\w./-]+\.\w+)`", path.read_text()):
            assert "NAME" in name or "VERSION" in name or (HOUSE / name).exists(), f"{path.name}: {name}"


def test_make_targets_that_are_told_exist():
    targets = set(re.findall(r"^([a-z]+):", (HOUSE / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b +#", README)) <= targets
    assert {"setup", "demo", "test", "lint", "bench", "clean"} <= targets


def test_options_in_python_are_options():
    calls = 0
    pages = (README, (HOUSE / "docs" / "api.md").read_text())
    for block in re.findall(r"```python\n(.*?)```", "".join(pages), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("fencepost", "fencepost.run"):
                given = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
                command = CommandGroup().get_command(None, "run").make_context("run", api.option_words(given))
                asking.options_from({}, command.params["sets"], None).validated(registry.known_names())
                calls += 1
    assert calls == 2
