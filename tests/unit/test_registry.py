"""Handlers: how they are declared, what is refused, and how they are found."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mayfly import registry
from mayfly.errors import BadHandler, HandlerError, HandlerModuleMissing
from mayfly.job import Job
from mayfly.queue.policy import Backoff
from mayfly.registry import Handler, Registry, handler, load_handlers, packages_named


class Nap(BaseModel):
    seconds: float


Write = Callable[[Mapping[str, str]], None]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test declares its own."""
    monkeypatch.setattr(registry, "_declared", {})


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into a directory that Python searches. What was imported from there is forgotten."""
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
    """What pip leaves of a distribution that brings handlers."""
    return {
        "plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n",
        "plugin-1.0.dist-info/entry_points.txt": f"[mayfly.handlers]\nours = {entry_point}\n",
    }


def declared(type_name: str = "nap") -> Handler:
    found = load_handlers([]).get(type_name)
    assert found is not None
    return found


# --- declaring --------------------------------------------------------------------------------------------


def test_a_function_of_the_job_alone_is_a_handler() -> None:
    """The decorator gives the function back as it was."""

    def nap(job: Job) -> None: ...

    assert handler("nap")(nap) is nap
    assert declared() == Handler("nap", nap)


def test_everything_about_a_handler_can_be_said() -> None:
    """Lane, attempts, timeout and backoff stand beside the function."""

    @handler("nap", lane="slow", max_attempts=3, timeout=20, backoff_base=0.5, backoff_cap=300)
    def nap(job: Job) -> None: ...

    assert declared() == Handler("nap", nap, "slow", 3, 20, 0.5, 300)


def test_a_second_parameter_is_the_payload() -> None:
    """Without an annotation, or with one that is no model, it is the plain dictionary."""

    @handler("bare")
    def bare(job, payload): ...  # type: ignore[no-untyped-def]

    @handler("plain")
    def plain(job: Job, payload: dict[str, Any]) -> None: ...

    found = load_handlers([])

    assert [(each.takes_payload, each.model) for each in found.handlers.values()] == [(True, None), (True, None)]


def test_a_payload_may_have_a_model() -> None:
    """The annotation of the second parameter, whatever that is called."""

    @handler("nap")
    def take(job: Job, nap: Nap) -> None: ...

    assert (declared().takes_payload, declared().model) == (True, Nap)


def test_a_model_may_be_annotated_as_text() -> None:
    """As `from __future__ import annotations` writes them all."""

    @handler("nap")
    def take(job: "Job", nap: "Nap") -> "None": ...

    assert declared().model is Nap


def test_only_the_payloads_annotation_must_be_known() -> None:
    """`Job` is often imported for type checkers only."""

    @handler("nap")
    def take(job: "OnlyForTypeCheckers", nap: "Nap") -> "NeitherThis": ...  # type: ignore[name-defined] # noqa: F821

    assert declared().model is Nap


def test_a_payload_annotation_that_nobody_knows_is_refused() -> None:
    """A model that cannot be found would check nothing."""
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
def test_a_function_that_could_not_be_called_is_refused(function: Callable[..., Any], reason: str) -> None:
    """At import, with its name, and not when the first job is due."""
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
    """With a sentence that names the handler and the bound; nothing is declared."""
    with pytest.raises(BadHandler, match=reason):
        handler(**{"type_name": "nap", **changes})(no_payload)

    assert load_handlers([]).handlers == {}


# --- side by side -----------------------------------------------------------------------------------------


async def a_coroutine(job: Job, nap: Nap) -> None: ...


def test_an_async_def_is_a_handler_whose_jobs_run_side_by_side() -> None:
    """Nothing has to be said about it; its payload may have a model as any other's."""
    handler("nap")(a_coroutine)

    assert (declared().is_async, declared().is_concurrent, declared().model) == (True, True, Nap)
    assert load_handlers([]).concurrent == {"nap"}


def test_a_plain_function_may_ask_for_threads() -> None:
    """Who does not has the runner to itself."""
    handler("nap", threads=20)(no_payload)
    handler("alone")(another)

    assert (declared().threads, declared().is_concurrent, declared().is_async) == (20, True, False)
    assert load_handlers([]).concurrent == {"nap"}


def test_an_async_def_needs_no_threads() -> None:
    """It would be unclear which of the two holds."""
    with pytest.raises(BadHandler, match=r"is an `async def`, which needs no threads="):
        handler("nap", threads=20)(a_coroutine)


class AwaitedObject:
    async def __call__(self, job: Job) -> None: ...


@pytest.mark.parametrize("thing", [partial(a_coroutine), AwaitedObject()])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    """It has no name to be told by, and hides whether it is to be awaited."""
    with pytest.raises(BadHandler, match="must be a function: write a `def` that calls it"):
        handler("nap")(thing)


def no_payload(job: Job) -> None: ...
def another(job: Job) -> None: ...


def test_two_handlers_for_one_type_are_refused() -> None:
    """Which of them would run must not depend on the order of imports."""
    handler("nap")(no_payload)

    with pytest.raises(BadHandler, match=r"nap \(.*another\) is declared already, as .*no_payload: rename one, or"):
        handler("nap")(another)


def test_a_module_may_be_imported_again() -> None:
    """The same function declared once more replaces itself."""
    handler("nap")(no_payload)
    handler("nap", timeout=5)(no_payload)

    assert declared().timeout == 5


def test_what_is_wrong_with_a_handler_is_shown_without_a_traceback() -> None:
    """Something that a person can fix."""
    assert issubclass(BadHandler, HandlerError)


def test_a_handlers_backoff_fills_in_what_is_usual() -> None:
    """What it does not say of itself is as everywhere."""
    usual = Backoff(1.0, 3600.0)

    assert Handler("nap", no_payload).backoff(usual) == usual
    assert Handler("nap", no_payload, backoff_base=0.5).backoff(usual) == Backoff(0.5, 3600.0)
    assert Handler("nap", no_payload, backoff_cap=300).backoff(usual) == Backoff(1.0, 300)


# --- finding ----------------------------------------------------------------------------------------------


def test_handlers_are_found_in_the_modules_named(write: Write) -> None:
    """Several may be."""
    write({"found_one.py": module("mail"), "found_two.py": module("nap", "digest")})
    found = load_handlers(["found_one", "found_two"])

    assert (sorted(found.handlers), found.failures) == (["digest", "mail", "nap"], {})


def test_packages_are_searched_to_the_ground(write: Write) -> None:
    """One room an area, and rooms in rooms."""
    write(
        {
            "searched/__init__.py": module("top"),
            "searched/mail/__init__.py": module("mail"),
            "searched/mail/digest.py": module("digest"),
            "searched/nap.py": module("nap"),
        }
    )

    assert sorted(load_handlers(["searched"]).handlers) == ["digest", "mail", "nap", "top"]


def test_a_package_may_say_where_its_handlers_are(write: Write) -> None:
    """What else is in it, a library that is not installed included, is not imported."""
    write(
        {
            "telling/__init__.py": f"__handlers__ = ('nap',)\n{module('top')}",
            "telling/nap.py": module("nap"),
            "telling/provider.py": "import nothing_of_that_name",
        }
    )

    found = load_handlers(["telling"])

    assert (sorted(found.handlers), found.failures) == (["nap", "top"], {})


def test_a_program_in_a_package_is_not_started(write: Write) -> None:
    """`python -m package` is for people."""
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
def test_one_broken_module_does_not_take_the_others_along(
    write: Write, source: str, reason: str, broken: str
) -> None:
    """It is recorded with its reason, and what lies before and behind it is loaded."""
    sound = {"mixed/__init__.py": "", "mixed/apples.py": module("apples"), "mixed/zebras.py": module("zebras")}
    write({**sound, broken: source})
    found = load_handlers(["mixed"])

    assert sorted(found.handlers) == ["apples", "zebras"]
    assert list(found.failures) == ["mixed.broken"]
    assert found.failures["mixed.broken"].startswith(reason)


def test_a_broken_module_is_imported_once(write: Write) -> None:
    """Whatever it did before it broke is not done again."""
    write(
        {
            "once/__init__.py": "",
            "once/broken/__init__.py": "import sys\nsys.once = getattr(sys, 'once', 0) + 1\n1 / 0",
        }
    )
    load_handlers(["once"])

    assert sys.__dict__.pop("once") == 1


def test_a_missing_module_is_recorded(write: Write) -> None:
    """A misspelled HANDLERS must not look like types that nobody knows."""
    write({"there.py": module("nap")})
    found = load_handlers(["not_there", "there"])

    advice = "Put it into MAYFLY_HOME or install it, or name your modules in HANDLERS"
    assert found.failures == {"not_there": f"ModuleNotFoundError: No module named 'not_there'. {advice}"}
    assert list(found.handlers) == ["nap"]
    with pytest.raises(HandlerModuleMissing, match=f"There is no module not_there. {advice}"):
        list(packages_named(["not_there"]))


def test_a_module_that_was_put_right_loads(write: Write) -> None:
    """A failed import leaves nothing half-made behind."""
    write({"repaired.py": "1 / 0"})
    first = load_handlers(["repaired"])
    write({"repaired.py": module("nap")})

    assert list(first.failures) == ["repaired"]
    assert load_handlers(["repaired"]).failures == {}


def test_ctrl_c_is_not_a_broken_module(write: Write) -> None:
    """Whoever wants to stop is not held up."""
    write({"interrupted.py": "raise KeyboardInterrupt"})

    with pytest.raises(KeyboardInterrupt):
        load_handlers(["interrupted"])


@pytest.mark.parametrize("value", ["plugged", "plugged:anything"])
def test_installed_packages_bring_handlers_by_entry_point(write: Write, value: str) -> None:
    """The group mayfly.handlers names modules, without a setting; packages are searched there too."""
    write({"plugged/__init__.py": module("nap"), "plugged/inner.py": module("inner"), **installed(value)})

    assert sorted(load_handlers([]).handlers) == ["inner", "nap"]


def test_a_broken_entry_point_is_recorded(write: Write) -> None:
    """Like any other module."""
    write(installed("gone.module"))

    assert load_handlers([]).failures == {"gone.module": "ModuleNotFoundError: No module named 'gone'"}


# --- asking -----------------------------------------------------------------------------------------------


def test_a_registry_knows_its_types() -> None:
    """And says nothing of others."""
    found = Registry({"nap": Handler("nap", no_payload)})

    assert (found.get("nap"), found.get("Nap")) == (Handler("nap", no_payload), None)


@pytest.mark.parametrize(("asked", "hint"), [("send_emial", " Did you mean 'send_email'?"), ("qqq", "")])
def test_a_misspelled_type_has_a_hint(asked: str, hint: str) -> None:
    """To follow the sentence that says that it is unknown."""
    found = Registry({name: Handler(name, no_payload) for name in ("send_email", "nap")})

    assert found.did_you_mean(asked) == hint


def test_the_default_module_may_be_missing_where_distributions_bring_handlers(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is the default of HANDLERS, and nobody has to write such a package."""
    monkeypatch.setattr("mayfly.registry.DEFAULT_MODULE", "no_such_module")
    write({**installed("plugin_jobs"), "plugin_jobs.py": module("nap")})

    found = load_handlers(["no_such_module"])

    assert (set(found.handlers), found.failures) == ({"nap"}, {})
