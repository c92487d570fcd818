"""The handler of each type: declared with @handler, imported by module name, never chosen by a row."""

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeVar, get_type_hints

from mayfly.errors import (
    MISSING_MODULE_ADVICE,
    NAME_TAKEN_ADVICE,
    BadCommand,
    BadDeclaration,
    BadHandler,
    BadRoutes,
    HandlerModuleMissing,
)
from mayfly.format import did_you_mean
from mayfly.limits.limit import Limit
from mayfly.process.programs import OWN_PACKAGES
from mayfly.queue.policy import Backoff
from mayfly.schema.tables import NAME_LENGTH, NO_HANDLER
from mayfly.settings.sources import find_integration

if TYPE_CHECKING:
    from mayfly.settings import Settings

ENTRY_POINTS = "mayfly.handlers"
DEFAULT_MODULE = "handlers"  # of MAYFLY_HOME, if HANDLERS is not set
SETTING_NAME = r"[A-Z][A-Z0-9_]{0,63}"
ROUTES_NAME = r"[a-z0-9-]{1,64}"  # a part of a path
MAX_THREADS = 1000  # the maximum of CONCURRENCY, too; a runner's status page has as many slots
ON_DEAD_TYPE = "mayfly.on_dead"  # of the jobs that run on_dead hooks
ON_DEAD_LANE = "mayfly"  # their own lane, so that a slow hook does not block a lane of the application

Function = TypeVar("Function", bound=Callable[..., Any])


class PayloadModel(Protocol):
    """The part of a pydantic model that Mayfly uses; pydantic itself is imported only by handlers that use it."""

    @classmethod
    def model_validate(cls, obj: Any) -> Any: ...


Model = type[PayloadModel]


@dataclass(frozen=True)
class Handler:
    type: str
    function: Callable[..., Any]
    lane: str = "default"
    max_attempts: int | None = None
    timeout: float | None = None
    backoff_base: float | None = None
    backoff_cap: float | None = None
    takes_payload: bool = False
    model: Model | None = None
    ack: str = "batch"  # "each": its outcome is committed before the next job starts
    is_async: bool = False
    threads: int | None = None  # how many of its jobs run at a time in one runner, each in a thread
    limits: tuple[Limit, ...] = ()  # acquired before a job starts
    takes: tuple[Limit, ...] = ()  # acquired by the handler itself with job.take()
    requires: tuple[str, ...] = ()  # settings without which its jobs are cancelled

    @property
    def where(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def is_concurrent(self) -> bool:
        """Whether its jobs run concurrently in one runner; those of other handlers run one after the other."""
        return self.is_async or self.threads is not None

    def backoff(self, usual: Backoff) -> Backoff:
        return Backoff(
            usual.base_seconds if self.backoff_base is None else self.backoff_base,
            usual.cap_seconds if self.backoff_cap is None else self.backoff_cap,
        )


@dataclass(frozen=True)
class Registry:
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)  # module: why it could not be imported
    modules: tuple[str, ...] = field(default=(), compare=False)  # that were to be imported, with their submodules

    def get(self, type_name: str) -> Handler | None:
        return self.handlers.get(type_name)

    def max_attempts(self, type_name: str, default: int) -> int:
        """Those that the handler declares, or the default."""
        handler = self.handlers.get(type_name)
        return (handler.max_attempts if handler else None) or default

    @cached_property
    def concurrent(self) -> frozenset[str]:
        """The types whose jobs run concurrently in one runner."""
        return frozenset(name for name, each in self.handlers.items() if each.is_concurrent)

    @cached_property
    def limited(self) -> frozenset[str]:
        """The types with limits that are acquired before a job starts."""
        return frozenset(name for name, each in self.handlers.items() if each.limits)

    @property
    def has_limits(self) -> bool:
        return any(each.limits or each.takes for each in self.handlers.values())

    def plus(self, own: Handler) -> "Registry":
        """Adds a handler of Mayfly's own, unless the application has declared one of that type."""
        return replace(self, handlers={own.type: own, **self.handlers})

    def why_unknown(self, type_name: str) -> str:
        broken = f"; cannot be imported: {', '.join(self.failures)}" if self.failures else ""
        return f"{NO_HANDLER} {type_name!r}{broken}"

    def did_you_mean(self, type_name: str) -> str:
        return did_you_mean(type_name, self.handlers)


_declared: dict[str, Handler] = {}


def handler(
    type_name: str,
    *,
    lane: str = "default",
    max_attempts: int | None = None,
    timeout: float | None = None,
    backoff_base: float | None = None,
    backoff_cap: float | None = None,
    ack: Literal["batch", "each"] = "batch",
    threads: int | None = None,
    limits: Limit | Iterable[Limit] = (),
    takes: Limit | Iterable[Limit] = (),
    requires: Iterable[str] = (),
) -> Callable[[Function], Function]:
    """Declare a function as the handler of a type: f(job), or f(job, payload) with a pydantic model or a dict.

    With ack="each" a job's outcome is committed before the next one starts: for effects that must not happen twice.
    Jobs of an `async def` share one event loop, those of a plain function with threads=20 run in up to 20 threads.
    `limits` are acquired before a job starts, `takes` by the handler itself with job.take(key).
    `requires` are settings of external services: while one is missing, jobs of this type are cancelled.
    """
    taken_before, taken_inside = _limits(type_name, limits), _limits(type_name, takes)
    required = (requires,) if isinstance(requires, str) else tuple(requires)

    def declare(function: Function) -> Function:
        takes_payload, model = _payload_parameter(type_name, function)
        declared = Handler(
            type_name, function, lane, max_attempts, timeout, backoff_base, backoff_cap, takes_payload, model, ack,
            inspect.iscoroutinefunction(function), threads, taken_before, taken_inside, required,
        )  # fmt: skip
        _check(declared)
        known = _declared.get(type_name)
        if known is not None and known.where != declared.where:
            reason = f"is declared already, as {known.where}: rename one, or remove its module from HANDLERS"
            raise BadHandler(type_name, declared.where, reason)
        _declared[type_name] = declared
        return function

    return declare


def declared() -> Mapping[str, Handler]:
    """The handlers that this process has declared so far."""
    return _declared


def forget_local() -> None:
    """Remove handlers declared inside a function, as tests do: the next test may declare another of that type."""
    for each in [each for each in _declared.values() if "<locals>" in each.where]:
        del _declared[each.type]


def add_home_to_path(settings: "Settings") -> None:
    """Handlers are in MAYFLY_HOME or installed, and cron starts Mayfly in another directory."""
    home = str(settings.home)
    if home not in sys.path:
        sys.path.insert(0, home)


def handler_modules(settings: "Settings") -> Sequence[str]:
    """Those of HANDLERS. Without it, the package `handlers` of MAYFLY_HOME, but none from elsewhere."""
    is_in_home = not settings.handlers and PathFinder.find_spec(DEFAULT_MODULE, [str(settings.home)]) is not None
    return (DEFAULT_MODULE,) if is_in_home else settings.handlers


def load_handlers(modules: Sequence[str]) -> Registry:
    """Import the named modules, packages with all their modules, and the installed entry points."""
    failures: dict[str, str] = {}
    names = _module_names(modules)
    for name in names:
        _import(name, failures)
    return Registry(dict(_declared), failures, tuple(names))


def _module_names(modules: Sequence[str]) -> list[str]:
    return [*modules, *(entry.module for entry in entry_points(group=ENTRY_POINTS))]


def packages_named(modules: Sequence[str]) -> Iterator[ModuleType]:
    """The modules and packages that load_handlers imports, without those inside of packages."""
    for name in _module_names(modules):
        try:
            yield importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise HandlerModuleMissing(name) from error


def contributed_commands(registry: Registry) -> dict[str, str]:
    """Verbs of `mayfly` that the imported modules contribute, each with the module of its click command.

    `__commands__ = {"campaigns": "shop.campaigns.cli"}`: the command is the attribute `campaigns` of that module.
    """
    found: dict[str, str] = {}
    for verb, module in _contributions(registry, "__commands__"):
        if found.setdefault(verb, module) != module:
            raise BadCommand(verb, module, f"has the name of a command of {found[verb]}: rename one of them")
    return found


def contributed_routes(registry: Registry) -> dict[str, str]:
    """Routes of the console that the imported modules contribute, each with the module of its ASGI application.

    `__routes__ = {"mail": "shop.mail.routes"}`: the application is the attribute `mail` of that module.
    """
    found: dict[str, str] = {}
    for name, module in _contributions(registry, "__routes__"):
        if not re.fullmatch(ROUTES_NAME, name):
            raise BadRoutes(name, module, "need a name of 1–64 lower-case letters, digits and hyphens")
        if found.setdefault(name, module) != module:
            raise BadRoutes(name, module, f"have the name of those of {found[name]}: rename one of them")
    return found


def _contributions(registry: Registry, attribute: str) -> Iterator[tuple[str, str]]:
    for name in _with_parts(registry.modules):
        yield from getattr(sys.modules[name], attribute, {}).items()


def _with_parts(names: Iterable[str]) -> Iterator[str]:
    """Those of the modules that were imported, and the modules inside of them."""
    for name in names:
        if name in sys.modules:
            yield name
            yield from _with_parts(f"{name}.{part}" for part in _declaration_parts(sys.modules[name]))


def _import(name: str, failures: dict[str, str]) -> None:
    """Import a module and its submodules. pkgutil.walk_packages would not catch SystemExit, and imports twice."""
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: a broken module must not affect the others
        failures[name] = f"{type(error).__name__}: {error}{_advice(name, error)}"
        sys.modules.pop(name, None)
        return
    for part in _declaration_parts(module):
        _import(f"{name}.{part}", failures)


def _advice(name: str, error: BaseException) -> str:
    missing = error.name if isinstance(error, ImportError) else None
    if isinstance(error, ModuleNotFoundError) and missing == name:
        return f". {MISSING_MODULE_ADVICE}"
    return f". {NAME_TAKEN_ADVICE}" if (missing or "").partition(".")[0] in OWN_PACKAGES else ""


def _declaration_parts(module: ModuleType) -> Iterable[str]:
    """The submodules to import: all, unless the package lists those with handlers in __handlers__."""
    listed: Iterable[str] | None = getattr(module, "__handlers__", None)
    if listed is not None:
        return listed
    found = pkgutil.iter_modules(getattr(module, "__path__", []))
    return (each.name for each in found if each.name != "__main__")  # a program, not a module


def _payload_parameter(type_name: str, function: Callable[..., Any]) -> tuple[bool, Model | None]:
    def refuse(reason: str) -> NoReturn:
        raise BadHandler(type_name, f"{function.__module__}.{function.__qualname__}", reason)

    if not hasattr(function, "__qualname__"):  # a functools.partial, or an object with __call__
        raise BadHandler(type_name, repr(function), "must be a function: write a `def` that calls it")

    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        refuse("must not be a generator: Mayfly does not iterate over its values")
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) not in (1, 2) or any(each.kind is each.KEYWORD_ONLY for each in parameters):
        refuse("must take (job) or (job, payload)")
    if len(parameters) == 1:
        return False, None
    try:
        annotation = _resolved(function, parameters[1])
    except NameError as error:
        refuse(f"has a payload annotation that cannot be resolved: {error}")
    return True, annotation if hasattr(annotation, "model_validate") else None


def _resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Resolves only this annotation: `Job` in `job: Job` may be imported for type checkers only."""
    bare = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    names = getattr(inspect.unwrap(function), "__globals__", {})
    return get_type_hints(bare, names)[parameter.name]


def _limits(type_name: str, given: Limit | Iterable[Limit]) -> tuple[Limit, ...]:
    if not isinstance(given, Limit | Iterable):
        raise BadDeclaration(f"The handler for {type_name}", f"limits= and takes= take limits, not {given!r}")
    found = (given,) if isinstance(given, Limit) else tuple(given)
    for each in found:
        if not isinstance(each, Limit):
            raise BadDeclaration(
                f"The handler for {type_name}", f"{each!r} is not a limit; write concurrency(…) or rate(…)"
            )
    return found


def _check(declared: Handler) -> None:
    def refuse(reason: str) -> None:
        raise BadHandler(declared.type, declared.where, reason)

    if not 1 <= len(declared.type) <= NAME_LENGTH or not 1 <= len(declared.lane) <= NAME_LENGTH:
        refuse(f"needs a type and a lane of 1 to {NAME_LENGTH} characters")
    if declared.max_attempts is not None and declared.max_attempts < 1:
        refuse(f"has max_attempts={declared.max_attempts}; it must be 1 or more")
    if declared.ack not in ("batch", "each"):
        refuse(f"has ack={declared.ack!r}; it must be 'batch' or 'each'")
    if declared.threads is not None:
        if declared.is_async:
            refuse("is an `async def`, which needs no threads=: its jobs share an event loop")
        if type(declared.threads) is not int or not 1 <= declared.threads <= MAX_THREADS:
            refuse(f"has threads={declared.threads!r}; it must be an integer, 1–{MAX_THREADS}")
    for name in declared.requires:
        if not isinstance(name, str) or not re.fullmatch(SETTING_NAME, name):
            refuse(f"requires {name!r}; it must be the name of a setting, such as 'OPENAI_API_KEY'")
    if declared.timeout is not None and declared.timeout <= 0:
        refuse(f"has timeout={declared.timeout}; it must be more than 0 seconds")
    if any(each is not None and each <= 0 for each in (declared.backoff_base, declared.backoff_cap)):
        refuse("needs a backoff_base and backoff_cap above 0 seconds")


def missing_settings(handlers: Mapping[str, Handler]) -> dict[str, tuple[str, ...]]:
    """The missing settings of each type that lacks any. Read once per runner."""
    found = {name: find_integration(name) for name in required_names(handlers.values())}
    missing = {type_name: tuple(each for each in known.requires if found[each] is None)
               for type_name, known in handlers.items() if known.requires}  # fmt: skip
    return {type_name: names for type_name, names in missing.items() if names}


def required_names(handlers: Iterable[Handler]) -> list[str]:
    return sorted({name for each in handlers for name in each.requires})
