"""`[[explore]]` in a suite file: a cell that explores a client instead of running a pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from fencepost.exploration.explorer import client_name, command_of, explore
from fencepost.exploration.record import Scope
from fencepost.exploration.space import BY_DEFAULT, PROGRAMS, scope_of
from fencepost.suites.matrix import slug_of
from harness.cluster.kinds.registry import kafka_version_of
from harness.common.documents import decode, encode
from harness.common.errors import UsageError
from harness.common.progress import Progress
from harness.common.toml_tables import Text, WrongTable, convert_table
from harness.common.wording import on_one_line
from harness.environment.versions import DEFAULT_KAFKA
from harness.results.suite import Cell
from harness.settings.kinds import Duration
from harness.settings.options import Options, to_toml

AT_ONCE = 16


@dataclass(frozen=True)
class ExploreTable:
    """One table `[[explore]]`: the options of `fencepost explore`."""

    client: Text = "librdkafka"
    driver: Text | None = None
    programs: tuple[Text, ...] = PROGRAMS
    kinds: tuple[Text, ...] = tuple(map(str, BY_DEFAULT))
    errors: Literal["class", "all"] = "class"
    members: bool = False
    pairs: bool = False
    brokers: Annotated[int, Meta(ge=1, le=7)] = 1
    limit: Text = "12m"
    kafka: Text = DEFAULT_KAFKA
    transaction_version: Annotated[int, Meta(ge=0, le=2)] | None = None


def plan(
    n: int,
    table: Mapping[str, Any],
    sets: Sequence[Mapping[str, Any]],
    settle: Callable[[Options], Options],
) -> tuple[Cell, Options]:
    """Return the n-th cell of a suite, which explores a client, and its options. Raises `UsageError`.

    Of the options of `--set`, only `kafka` concerns it.
    """
    try:
        wanted = convert_table({key.replace("-", "_"): value for key, value in table.items()}, ExploreTable)
        scope = scope_of(
            wanted.programs,
            wanted.kinds,
            all_errors=wanted.errors == "all",
            members=wanted.members,
            pairs=wanted.pairs,
            brokers=wanted.brokers,
        )
        options = Options(
            client=wanted.client,
            driver=wanted.driver,
            kafka=wanted.kafka,
            transaction_version=wanted.transaction_version,
            workers=AT_ONCE,
            seed=0,
            time_limit_s=Duration().parse("limit", wanted.limit),
        )
        for values in sets:
            options = options.updated({key: value for key, value in values.items() if key == "kafka"})
        options = settle(options)
        client = client_name(options)
    except (UsageError, WrongTable) as error:
        raise UsageError(f"[[explore]]: {error}") from None
    named = ("client", "driver", "programs", "limit")
    more = {key: _text(value) for key, value in table.items() if key not in named}
    programs = ",".join(scope.programs)
    name = " ".join(["explore", client, programs, *(f"{key}={value}" for key, value in more.items())])
    cell = Cell(
        name=name,
        workload="explore",
        client=client,
        nemesis=programs,
        kafka=kafka_version_of(options),
        seed=0,
        options=to_toml(options),
        command=f"{command_of(options, scope, whole=True)} --limit {wanted.limit}",
        explore=encode(scope),
        more=more,
        slug=slug_of(n, name),
    )
    return cell, options


def _text(value: object) -> str:
    return on_one_line(",".join(map(str, value)) if isinstance(value, list) else str(value))


def carry_out(options: Options, scope: Mapping[str, Any], progress: Progress) -> None:
    """Explore in the folder that the run of the cell would have. Its verdict is in `verdict.json`."""
    folder = Path(options.store) / str(options.name) / "exploration"
    options = replace(options, store=str(folder.parent), name=None)
    explore(options, decode(scope, Scope), progress, limit_s=options.time_limit_s, again=True, folder=folder)
