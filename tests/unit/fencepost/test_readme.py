"""The README and the docs are correct: their commands, options, links, files and tables exist."""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost import api, registry
from fencepost.cli import COMMANDS, CommandGroup
from fencepost.commands import options as cli_options
from fencepost.commands.list import KINDS
from nemeses.pages import with_tables

ROOT = Path(__file__).resolve().parents[3]
TEXTS = [ROOT / "README.md", ROOT / "Makefile", ROOT / ".ci/run", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()


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
def test_each_command_in_the_docs_exists_with_its_options(command: str):
    _, name, *arguments = shlex.split(command, comments=True)
    command_ = CommandGroup().get_command(None, name)
    assert command_, f"no command {name}"
    if name == "run":
        arguments = [word for word in arguments if word != "--help"]
    values = command_.make_context(name, arguments).params
    if name == "run":
        sets, _ = values.pop("sets"), (values.pop("config"), values.pop("as_json"))
        values.pop("with_control", None)
        options = cli_options.options_from(values, sets, None)
        validated = options.validated(registry.known_names())
        assert validated == replace(options, rule=validated.rule)  # the rules of the file are in it
    if name == "list":
        assert values["kind"] in KINDS


def test_the_docs_have_at_least_twenty_commands():
    assert len(set(commands())) >= 20


def table(page: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / page).read_text(), re.MULTILINE)


def test_the_page_of_faults_lists_all_of_them():
    """`make docs` makes its tables."""
    page = (ROOT / "docs" / "faults.md").read_text()
    assert with_tables(page) == page
    assert sorted(table("faults.md")) == sorted(registry.nemeses())


def test_the_page_of_defects_lists_all_of_them():
    assert table("defects.md") == list(registry.defects())


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 150


def test_the_readme_begins_with_a_history_of_five_lines():
    history = README.split("```text\n")[1].split("```")[0]
    assert len(history.splitlines()) == 5
    assert README.index("```text") < 600


def test_links_between_pages_have_a_target():
    for path in TEXTS:
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_files_that_the_docs_name_exist():
    packages = "fencepost|harness|workloads|nemeses|checkers|reports|tests"
    for path in TEXTS:
        for name in re.findall(rf"`((?:{packages})/[\w./-]+\.\w+)`", path.read_text()):
            assert "NAME" in name or "VERSION" in name or (ROOT / name).exists(), f"{path.name}: {name}"


def test_make_targets_in_the_readme_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b +#", README)) <= targets
    assert {"setup", "demo", "test", "lint", "bench", "clean"} <= targets


def test_options_in_python_examples_are_valid():
    calls = 0
    pages = (README, (ROOT / "docs" / "api.md").read_text())
    for block in re.findall(r"```python\n(.*?)```", "".join(pages), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("fencepost", "fencepost.run"):
                values = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
                command = (
                    CommandGroup().get_command(None, "run").make_context("run", api.option_words(values))
                )
                cli_options.options_from({}, command.params["sets"], None).validated(registry.known_names())
                calls += 1
    assert calls == 2
