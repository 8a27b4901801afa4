"""Small stored runs and histories, and the texts that Fencepost makes of them.

An entry is a folder with a stored run (`run`) or a history (`history.*`). Its texts are `verdict.json`, what
`fencepost check` and `fencepost run` print (`console.txt`), the steps that the verdict offers to show
(`trace.txt`), and the text of the report (`page.txt`).
"""

import io
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

from pyspark.sql import SparkSession

from fencepost.checks.check_stored_runs import check_stored_runs, open_evidence
from fencepost.checks.evidence import Evidence
from fencepost.checks.histories import check_history_files
from fencepost.checks.run_report import check_meanings
from fencepost.cli import run_command_line
from fencepost.commands.output import print_history
from harness.common.documents import encode
from harness.common.errors import FencepostError
from harness.results.example import Example
from harness.results.verdict import Verdict
from reports.console import last_lines
from reports.html import history, page
from reports.story.scopes import trace_commands

CORPUS = Path(__file__).parent
TEXTS = ("verdict.json", "console.txt", "trace.txt", "page.txt")
EXPECTED = "expected"
MOST_TRACES = 3
SIZE = re.compile(r"(?<=the verdict, for programs\n).*")
"""The size of verdict.json on the page. It depends on the path of the run."""
Result = Verdict | FencepostError


def names() -> list[str]:
    """The names of the entries."""
    return sorted(
        path.name for path in CORPUS.iterdir() if (path / "run").is_dir() or any(path.glob("history.*"))
    )


def make_texts(spark: SparkSession, entries: Sequence[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return the texts of each entry, by name and file name. The entries are copied to `folder`.

    Paths in the texts are relative to that folder, so that they are the same on every machine.
    """
    results: dict[str, Result] = {}
    runs: dict[str, Evidence] = {}
    files: dict[str, Path] = {}
    for name in entries:
        shutil.copytree(CORPUS / name, folder / name, ignore=shutil.ignore_patterns(EXPECTED))
        if (run := folder / name / "run").is_dir():
            try:
                runs[name] = open_evidence(str(run), run)
            except FencepostError as error:
                results[name] = error
        else:
            files[name] = next((folder / name).glob("history.*"))
    checked = check_stored_runs(spark, list(runs.values()), frozenset(), lambda phase: None)
    results |= dict(zip(runs, checked, strict=True))
    checked = check_history_files(spark, list(files.values()), frozenset(), lambda phase: None)
    results |= dict(zip(files, checked, strict=True))
    return {
        name: {
            file: SIZE.sub("SIZE", text.replace(f"{folder}/", ""))
            for file, text in _texts(files.get(name) or folder / name / "run", results[name])
        }
        for name in entries
    }


def _texts(source: Path, result: Result) -> Iterator[tuple[str, str]]:
    stored = source.is_dir()
    console = _printed(print_history, str(source), result, as_json=False, stored=stored)
    if isinstance(result, FencepostError):
        yield "console.txt", console
        return
    yield "verdict.json", json.dumps(encode(result), indent=1, ensure_ascii=False) + "\n"
    if not stored:
        yield "console.txt", console
        yield "page.txt", text_of(history.draw(result, f"fencepost check {source}"))
        return
    yield "console.txt", console + "\n" + "\n".join(last_lines(result, source, "fencepost run ...")) + "\n"
    if (source / "journals").is_dir():
        examples = [findings.example for findings in result.anomalies.values() if findings.example]
        yield "trace.txt", "\n".join(_traces(source, examples[:MOST_TRACES], bool(result.faults)))
    yield "page.txt", text_of(page.draw(source, result, check_meanings()))


def _traces(run: Path, examples: Sequence[Example], faults: bool) -> Iterator[str]:
    commands = [command for command in trace_commands(run, examples) if command]
    commands += [f"fencepost trace {run} --fault 1"] if faults else []
    for command in dict.fromkeys(commands):
        yield f"$ {command}\n{_printed(run_command_line, shlex.split(command)[1:])}"


def _printed(act: Callable[..., object], *arguments: object, **options: object) -> str:
    with redirect_stdout(io.StringIO()) as out:
        act(*arguments, **options)
    return out.getvalue()


class _Text(HTMLParser):
    """Collects the text of a page, a line for each element with text. Titles of drawings are in it, styles are not."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self._hidden = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")
        if tag not in INLINE:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")
        if tag not in INLINE:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.lines[-1] += data


INLINE = ("a", "b", "code", "em", "i", "span", "strong", "tspan")


def text_of(html: str) -> str:
    """Return the text of a page."""
    parser = _Text()
    parser.feed(html)
    lines = (re.sub(r"\s+", " ", line).strip() for line in parser.lines)
    return "\n".join(line for line in lines if line) + "\n"
