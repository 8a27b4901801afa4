"""Import the checkers again with one file changed, in this process and on its Spark workers."""

import copyreg
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import Any

from pyspark import cloudpickle

from tests.mutants.mutate import Mutant

STAYS = ("checkers.spark.session", "checkers.spark.driver")
"""Modules that the running Spark session belongs to; they are not imported again."""
ON_WORKERS = (
    "checkers.histories.by_key",
    "checkers.histories.components",
    "checkers.histories.graph",
    "checkers.histories.packs",
    "checkers.histories.records",
    "checkers.histories.tables",
)
"""Modules that Spark tasks run. They are pickled by value, because a worker would import the unchanged file."""


class _Source(Loader):
    """Executes a text instead of the file."""

    def __init__(self, text: str, path: str) -> None:
        self._code: CodeType = compile(text, path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


class _Finder(MetaPathFinder):
    """Finds one module."""

    def __init__(self, name: str, text: str, path: str) -> None:
        self._name, self._text, self._path = name, text, path

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return spec_from_loader(fullname, _Source(self._text, self._path))


def _property(function: Callable[[Any], Any], name: str) -> cached_property[Any]:
    """One that has come over a wire: its lock cannot."""
    made: cached_property[Any] = cached_property(function)
    made.__set_name__(object, name)
    return made


copyreg.pickle(cached_property, lambda one: (_property, (one.func, one.attrname)))  # type: ignore[arg-type, return-value]
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def forget() -> None:
    """Remove the checkers from the imported modules, so that the next import reads them again."""
    for name in [name for name in sys.modules if name.startswith("checkers.") and name not in STAYS]:
        del sys.modules[name]


@contextmanager
def changed(mutant: Mutant | None) -> Iterator[None]:
    """Import the checkers with the mutant instead of its file, and forget them at the end; None: without a mutant."""
    finder = None
    if mutant is not None:
        name = mutant.file.removesuffix(".py").replace("/", ".")
        finder = _Finder(name, mutant.source, mutant.file)
        sys.meta_path.insert(0, finder)
    forget()
    try:
        for module in (
            "checkers.histories.check",
            "checkers.checking.stored_runs",
            "checkers.histories.by_key",
            "checkers.histories.graph",
        ):
            import_module(module)
        for name in [name for name in sys.modules if name.startswith(ON_WORKERS)]:
            cloudpickle.register_pickle_by_value(sys.modules[name])
        yield
    finally:
        if finder is not None:
            sys.meta_path.remove(finder)
        forget()
