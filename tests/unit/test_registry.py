"""Handlers: how they are declared, which declarations are refused, and how handlers are found."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mayfly import registry
from mayfly.errors import BadHandler, HandlerError, HandlerModuleMissing
from mayfly.job import Job
from mayfly.process.programs import import_own
from mayfly.queue.policy import Backoff
from mayfly.registry import Handler, Registry, handler, handler_modules, load_handlers, packages_named
from mayfly.settings import load


class Nap(BaseModel):
    seconds: float


Write = Callable[[Mapping[str, str]], None]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test declares its own handlers."""
    monkeypatch.setattr(registry, "_declared", {})


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules into a directory on sys.path; they are removed from sys.modules afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write_files(files: Mapping[str, str]) -> None:
        for name, source in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(source)

    yield write_files
    for name in set(sys.modules) - before:
        del sys.modules[name]


def module(*types: str) -> str:
    """The source of a module that declares these types."""
    functions = [f"@handler({name!r})\ndef {name}(job): pass" for name in types]
    return "\n".join(["from mayfly import handler", *functions])


def installed(entry_point: str) -> dict[str, str]:
    """A distribution that provides handlers."""
    return {
        "plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n",
        "plugin-1.0.dist-info/entry_points.txt": f"[mayfly.handlers]\nours = {entry_point}\n",
    }


def declared(type_name: str = "nap") -> Handler:
    found = load_handlers([]).get(type_name)
    assert found is not None
    return found


# --- declarations -----------------------------------------------------------------------------------------


def test_a_function_of_the_job_is_a_handler() -> None:
    """The decorator returns the function unchanged."""

    def nap(job: Job) -> None: ...

    assert handler("nap")(nap) is nap
    assert declared() == Handler("nap", nap)


def test_every_option_of_a_handler_can_be_declared() -> None:
    """Lane, attempts, timeout and backoff are arguments of the decorator."""

    @handler("nap", lane="slow", max_attempts=3, timeout=20, backoff_base=0.5, backoff_cap=300)
    def nap(job: Job) -> None: ...

    assert declared() == Handler("nap", nap, "slow", 3, 20, 0.5, 300)


def test_a_second_parameter_is_the_payload() -> None:
    """Without an annotation, or if the annotation is not a model, it is the plain dictionary."""

    @handler("bare")
    def bare(job, payload): ...  # type: ignore[no-untyped-def]

    @handler("plain")
    def plain(job: Job, payload: dict[str, Any]) -> None: ...

    found = load_handlers([])

    assert [(each.takes_payload, each.model) for each in found.handlers.values()] == [(True, None), (True, None)]


def test_a_payload_may_have_a_model() -> None:
    """The model is the annotation of the second parameter, under any parameter name."""

    @handler("nap")
    def take(job: Job, nap: Nap) -> None: ...

    assert (declared().takes_payload, declared().model) == (True, Nap)


def test_a_model_annotation_can_be_a_string() -> None:
    """`from __future__ import annotations` turns every annotation into a string."""

    @handler("nap")
    def take(job: "Job", nap: "Nap") -> "None": ...

    assert declared().model is Nap


def test_only_the_annotation_of_the_payload_must_resolve() -> None:
    """`Job` is often imported for type checkers only."""

    @handler("nap")
    def take(job: "OnlyForTypeCheckers", nap: "Nap") -> "NeitherThis": ...  # type: ignore[name-defined] # noqa: F821

    assert declared().model is Nap


def test_a_payload_annotation_that_does_not_resolve_is_refused() -> None:
    """Without its model, no payload would be checked."""
    with pytest.raises(
        BadHandler, match=r"payload annotation that cannot be resolved: name 'Unheard' is not defined\."
    ):

        @handler("nap")
        def take(job: Job, nap: "Unheard") -> None: ...  # type: ignore[name-defined] # noqa: F821


def no_parameters() -> None: ...
def three_parameters(job: Job, payload: Any, more: Any) -> None: ...
def keyword_only(job: Job, *, payload: Any) -> None: ...
def a_generator(job: Job) -> Iterator[int]:
    yield 1


async def an_async_generator(job: Job) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (no_parameters, r"must take \(job\) or \(job, payload\)"),
        (three_parameters, r"must take \(job\) or \(job, payload\)"),
        (keyword_only, r"must take \(job\) or \(job, payload\)"),
        (a_generator, "must not be a generator"),
        (an_async_generator, "must not be a generator"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(function: Callable[..., Any], reason: str) -> None:
    """The error is raised at import, with the function's name, not when the first job is due."""
    with pytest.raises(BadHandler, match=rf"The handler for nap \(.*test_registry\.{function.__name__}\) {reason}"):
        handler("nap")(function)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type_name": ""}, "needs a type and a lane of 1 to 64 characters"),
        ({"type_name": "x" * 65}, "needs a type and a lane of 1 to 64 characters"),
        ({"lane": ""}, "needs a type and a lane of 1 to 64 characters"),
        ({"lane": "x" * 65}, "needs a type and a lane of 1 to 64 characters"),
        ({"max_attempts": 0}, "has max_attempts=0; it must be 1 or more"),
        ({"timeout": 0}, "has timeout=0; it must be more than 0 seconds"),
        ({"timeout": -1.5}, "has timeout=-1.5; it must be more than 0 seconds"),
        ({"backoff_base": 0}, "needs a backoff_base and backoff_cap above 0 seconds"),
        ({"backoff_base": -1}, "needs a backoff_base and backoff_cap above 0 seconds"),
        ({"backoff_cap": 0}, "needs a backoff_base and backoff_cap above 0 seconds"),
        ({"threads": 0}, "has threads=0; it must be an integer, 1–1000"),
        ({"threads": 1001}, "has threads=1001; it must be an integer, 1–1000"),
        ({"threads": True}, "has threads=True; it must be an integer, 1–1000"),
        ({"threads": 2.5}, r"has threads=2\.5; it must be an integer, 1–1000"),
    ],
)
def test_a_value_out_of_bounds_is_refused(changes: dict[str, Any], reason: str) -> None:
    """The sentence names the handler and the bound, and nothing is declared."""
    with pytest.raises(BadHandler, match=reason):
        handler(**{"type_name": "nap", **changes})(no_payload)

    assert load_handlers([]).handlers == {}


# --- concurrency ------------------------------------------------------------------------------------------


async def a_coroutine(job: Job, nap: Nap) -> None: ...


def test_jobs_of_an_async_handler_run_concurrently() -> None:
    """It needs no option; its payload can have a model like any other."""
    handler("nap")(a_coroutine)

    assert (declared().is_async, declared().is_concurrent, declared().model) == (True, True, Nap)
    assert load_handlers([]).concurrent == {"nap"}


def test_a_plain_function_can_run_in_threads() -> None:
    """By default its jobs run one at a time."""
    handler("nap", threads=20)(no_payload)
    handler("alone")(another)

    assert (declared().threads, declared().is_concurrent, declared().is_async) == (20, True, False)
    assert load_handlers([]).concurrent == {"nap"}


def test_an_async_handler_with_threads_is_refused() -> None:
    """It would be unclear which of the two applies."""
    with pytest.raises(BadHandler, match=r"is an `async def`, which needs no threads="):
        handler("nap", threads=20)(a_coroutine)


class AwaitedObject:
    async def __call__(self, job: Job) -> None: ...


@pytest.mark.parametrize("thing", [partial(a_coroutine), AwaitedObject()])
def test_an_object_that_is_not_a_function_is_refused(thing: Any) -> None:
    """It has no name for error messages, and it does not show whether it must be awaited."""
    with pytest.raises(BadHandler, match="must be a function: write a `def` that calls it"):
        handler("nap")(thing)


def no_payload(job: Job) -> None: ...
def another(job: Job) -> None: ...


def test_two_handlers_for_one_type_are_refused() -> None:
    """Which of them runs must not depend on the order of imports."""
    handler("nap")(no_payload)

    with pytest.raises(BadHandler, match=r"nap \(.*another\) is declared already, as .*no_payload: rename one, or"):
        handler("nap")(another)


def test_a_module_can_be_imported_again() -> None:
    """Declaring the same function again replaces it."""
    handler("nap")(no_payload)
    handler("nap", timeout=5)(no_payload)

    assert declared().timeout == 5


def test_a_bad_declaration_is_shown_without_a_traceback() -> None:
    """It is an error that a user can fix."""
    assert issubclass(BadHandler, HandlerError)


def test_the_backoff_of_a_handler_is_filled_with_the_defaults() -> None:
    """Parts that the handler does not declare have the values of the installation."""
    usual = Backoff(1.0, 3600.0)

    assert Handler("nap", no_payload).backoff(usual) == usual
    assert Handler("nap", no_payload, backoff_base=0.5).backoff(usual) == Backoff(0.5, 3600.0)
    assert Handler("nap", no_payload, backoff_cap=300).backoff(usual) == Backoff(1.0, 300)


# --- finding ----------------------------------------------------------------------------------------------


def test_handlers_are_found_in_the_configured_modules(write: Write) -> None:
    """HANDLERS can name several modules."""
    write({"found_one.py": module("mail"), "found_two.py": module("nap", "digest")})
    found = load_handlers(["found_one", "found_two"])

    assert (sorted(found.handlers), found.failures) == (["digest", "mail", "nap"], {})


def test_packages_are_searched_recursively(write: Write) -> None:
    """Subpackages at any depth are imported."""
    write(
        {
            "searched/__init__.py": module("top"),
            "searched/mail/__init__.py": module("mail"),
            "searched/mail/digest.py": module("digest"),
            "searched/nap.py": module("nap"),
        }
    )

    assert sorted(load_handlers(["searched"]).handlers) == ["digest", "mail", "nap", "top"]


def test_a_package_can_list_its_handler_modules(write: Write) -> None:
    """Other modules are not imported, so they may need a library that is not installed."""
    write(
        {
            "listed/__init__.py": f"__handlers__ = ('nap',)\n{module('top')}",
            "listed/nap.py": module("nap"),
            "listed/provider.py": "import nothing_of_that_name",
        }
    )

    found = load_handlers(["listed"])

    assert (sorted(found.handlers), found.failures) == (["nap", "top"], {})


def test_the_main_module_of_a_package_is_not_imported(write: Write) -> None:
    """`python -m package` is started by users only."""
    write({"with_program/__init__.py": module("nap"), "with_program/__main__.py": "raise SystemExit('started')"})

    assert load_handlers(["with_program"]) == Registry({"nap": declared()}, {})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('no licence')", "SystemExit: no licence"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("import mayfly\nmayfly.handler('x', timeout=0)(lambda job: None)", "BadHandler: The handler for x"),
    ],
)
@pytest.mark.parametrize("broken", ["mixed/broken.py", "mixed/broken/__init__.py"])
def test_a_broken_module_does_not_affect_the_others(write: Write, source: str, reason: str, broken: str) -> None:
    """It is recorded with its reason, and the modules before and after it are loaded."""
    sound = {"mixed/__init__.py": "", "mixed/apples.py": module("apples"), "mixed/zebras.py": module("zebras")}
    write({**sound, broken: source})
    found = load_handlers(["mixed"])

    assert sorted(found.handlers) == ["apples", "zebras"]
    assert list(found.failures) == ["mixed.broken"]
    assert found.failures["mixed.broken"].startswith(reason)


def test_a_broken_module_is_imported_once(write: Write) -> None:
    """Side effects before its error do not happen twice."""
    write(
        {
            "once/__init__.py": "",
            "once/broken/__init__.py": "import sys\nsys.once = getattr(sys, 'once', 0) + 1\n1 / 0",
        }
    )
    load_handlers(["once"])

    assert sys.__dict__.pop("once") == 1


def test_a_missing_module_is_recorded(write: Write) -> None:
    """A misspelled HANDLERS must not be mistaken for unknown types."""
    write({"there.py": module("nap")})
    found = load_handlers(["not_there", "there"])

    advice = "Put it into MAYFLY_HOME or install it, or name your modules in HANDLERS"
    assert found.failures == {"not_there": f"ModuleNotFoundError: No module named 'not_there'. {advice}"}
    assert list(found.handlers) == ["nap"]
    with pytest.raises(HandlerModuleMissing, match=f"There is no module not_there. {advice}"):
        list(packages_named(["not_there"]))


def test_a_fixed_module_loads(write: Write) -> None:
    """A failed import leaves no half-initialised module behind."""
    write({"repaired.py": "1 / 0"})
    first = load_handlers(["repaired"])
    write({"repaired.py": module("nap")})

    assert list(first.failures) == ["repaired"]
    assert load_handlers(["repaired"]).failures == {}


def test_ctrl_c_is_not_a_broken_module(write: Write) -> None:
    """KeyboardInterrupt ends the process instead of being recorded."""
    write({"interrupted.py": "raise KeyboardInterrupt"})

    with pytest.raises(KeyboardInterrupt):
        load_handlers(["interrupted"])


@pytest.mark.parametrize("value", ["plugged", "plugged:anything"])
def test_installed_packages_provide_handlers_by_entry_point(write: Write, value: str) -> None:
    """The group mayfly.handlers names modules or packages, without a setting."""
    write({"plugged/__init__.py": module("nap"), "plugged/inner.py": module("inner"), **installed(value)})

    assert sorted(load_handlers([]).handlers) == ["inner", "nap"]


def test_a_broken_entry_point_is_recorded(write: Write) -> None:
    """It is recorded like any other broken module."""
    write(installed("gone.module"))

    assert load_handlers([]).failures == {"gone.module": "ModuleNotFoundError: No module named 'gone'"}


# --- lookup -----------------------------------------------------------------------------------------------


def test_a_registry_finds_its_types() -> None:
    """Other types are None."""
    found = Registry({"nap": Handler("nap", no_payload)})

    assert (found.get("nap"), found.get("Nap")) == (Handler("nap", no_payload), None)


@pytest.mark.parametrize(("asked", "hint"), [("send_emial", " Did you mean 'send_email'?"), ("qqq", "")])
def test_a_misspelled_type_has_a_hint(asked: str, hint: str) -> None:
    """The hint follows the sentence about the unknown type."""
    found = Registry({name: Handler(name, no_payload) for name in ("send_email", "nap")})

    assert found.did_you_mean(asked) == hint


# --- without HANDLERS -------------------------------------------------------------------------------------


def modules_of(home: Path, **environ: str) -> Sequence[str]:
    return handler_modules(load({"MAYFLY_HOME": str(home), **environ}).settings)


def test_without_handlers_the_package_of_the_home_is_loaded(tmp_path: Path) -> None:
    """A module `handlers.py` or a package `handlers/`."""
    package, module_file, neither = (tmp_path / name for name in ("package", "module", "neither"))
    (package / "handlers").mkdir(parents=True)
    (package / "handlers/__init__.py").touch()
    for home in (module_file, neither):
        home.mkdir()
    (module_file / "handlers.py").touch()

    assert [modules_of(each) for each in (package, module_file, neither)] == [("handlers",), ("handlers",), ()]


def test_without_handlers_no_package_from_elsewhere_is_loaded(write: Write, tmp_path: Path) -> None:
    """An installed package that happens to be called `handlers` is not the application's; a named one is."""
    write({"handlers/__init__.py": module("nap")})
    home = tmp_path / "home"
    home.mkdir()

    assert modules_of(home) == ()
    assert modules_of(home, HANDLERS="handlers") == ("handlers",)


def test_entry_points_need_no_handlers(write: Write) -> None:
    """The modules of a registry are those that were loaded."""
    write({**installed("plugin_jobs"), "plugin_jobs.py": module("nap")})

    found = load_handlers([])

    assert (set(found.handlers), found.failures, found.modules) == ({"nap"}, {}, ("plugin_jobs",))


@pytest.mark.parametrize("source", ["import runner.jobs", "from runner import jobs", "import console.menu as menu"])
def test_a_module_that_imports_its_own_runner_package_is_explained(write: Write, source: str) -> None:
    """In a process of Mayfly `runner` is Mayfly's; the bare error does not explain that."""
    write({"shop.py": f"{source}\n"})
    import_own("runner")
    import_own("console")

    reason = load_handlers(["shop"]).failures["shop"]

    assert reason.endswith(". Mayfly has a package of this name, which is imported instead of yours: rename yours")
