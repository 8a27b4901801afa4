"""What somebody has to be told of a suite: an issue's text, or a mail's."""

from harness.suite import State, Suite
from harness.telling.words import several
from reports.suites.lines import lead
from reports.suites.markdown import code, plain
from reports.suites.seeds import alike

MOST = 20


def news(suite: Suite) -> str:
    """`news.md`: what is bad and was not before, and what kept the suite from an answer; empty if there is nothing."""
    new = [cell for cell in suite.cells if cell.new]
    parts = [f"{line}\n" for line in _unanswered(suite)]
    if new:
        parts.append(f"Bad, and not so before: {several(len(new), 'run')}.\n")
    groups = alike(suite, new)
    for one in groups[:MOST]:
        cell = one.first
        of = f" (seed {cell.seed})" if len(one.cells) > 1 else ""
        told = [f"{cell.state}: {plain(cell.reason, 600)}{of}", plain(lead(cell), 600), code(cell.command)]
        parts.append(f"### {plain(one.name, 200)}\n\n" + "\n\n".join(filter(None, told)) + "\n")
    if more := sum(len(one.cells) for one in groups[MOST:]):
        parts.append(f"{several(more, 'more run')} {'is' if more == 1 else 'are'} in index.html.\n")
    return "\n".join(parts)


def _unanswered(suite: Suite) -> list[str]:
    """Why runs have no answer."""
    said = []
    unjudged = sum(cell.state is State.NOT_JUDGED for cell in suite.cells)
    if suite.interrupted:
        said.append("The suite was interrupted.")
    if unjudged:
        said.append(f"{several(unjudged, 'run')} ended, and could not be judged.")
    if all(cell.state is State.NOT_RUN for cell in suite.cells):
        said.append("No run was started.")
    return said
