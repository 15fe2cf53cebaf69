"""`gpu_share`, `priority` and `defaults`: what authors write.

Calling `gpu_share(...)` checks the values at once and gives an object that is applied by calling it, as a decorator or
directly: on a KFP component or task, on a Hera template or script, or on the function below either.
"""

from __future__ import annotations

import contextvars
import functools
from importlib import import_module
from numbers import Real
from types import FunctionType, TracebackType
from typing import Any, NamedTuple, TypeVar

from pillion.authoring import tags
from pillion.authoring.late_imports import call_when_imported
from pillion.authoring.tags import Directive, Tags
from pillion.policy import table
from pillion.policy.annotations import read_term
from pillion.policy.problems import PolicyError, Problem, echo
from pillion.policy.terms import Terms, inconsistencies

Target = TypeVar("Target")

# An object is recognised by the package that its class, or a base of it, comes from, and a function by the package that
# made it, as `@script` makes one around the author's; only then its adapter is imported.
_ADAPTERS = {"kfp": "pillion.authoring.kfp", "hera": "pillion.authoring.hera"}
_RETRIES_MAX = 1000


class Applicable(NamedTuple):
    """A checked `gpu_share(...)` or `priority(...)`, ready to be applied by calling it."""

    directive: Directive

    def __call__(self, target: Target) -> Target:
        """Apply to a component, task, template, script or function, and return it (or its tagged copy).

        Raises:
            PolicyError: The object already has one of these, or cannot be placed on a GPU.
            TypeError: It is nothing that Pillion knows.
        """
        return apply(target, self.directive)

    def __repr__(self) -> str:
        return self.directive.source


def gpu_share(
    share: object = None, *, limit: object = None, memory: object = None, container: object = None
) -> Applicable:
    """Say how much of one GPU a step needs.

    Args:
        share: Guaranteed fraction of one GPU's time, 0.01 to 1, as `0.5` or `"500m"`. Required unless the step is low.
        limit: The most GPU time the step may take even of an idle GPU; 1 unless said.
        memory: GPU memory the step may allocate, as a Kubernetes quantity such as `"8Gi"`. Required of a low step;
            otherwise share x device memory unless said.
        container: Which of the step's containers gets the GPU; `main` in Argo and KFP unless said.

    In Hera every value may be a parameter: `gpu_share("{{inputs.parameters.share}}")`.

    Raises:
        PolicyError: A value is not one that the contract allows.
    """
    said = {"share": share, "limit": limit, "memory": memory, "container": container}
    return Applicable(_directive("gpu_share", said, positional="share"))


def priority(
    tier: object,
    *,
    max_slowdown: object = None,
    max_stall: object = None,
    on_preempt: object = None,
    retries: int | None = None,
    priority_class: bool = True,
) -> Applicable:
    """Say how urgent a step is.

    Args:
        tier: `"high"`, `"normal"` or `"low"`.
        max_slowdown: High steps only: bound on the time that lower tiers steal, as a percentage such as `"1%"`.
        max_stall: High steps only: bound on any single delay by lower tiers, such as `"10ms"`.
        on_preempt: What the step does when a higher tier needs its room: `"wait"`, `"suspend"` or `"evict"`.
        retries: How often a preempted step is tried again, 0 to 1000; 5 unless said, for steps that may be evicted.
        priority_class: False leaves the tier's PriorityClass out of the spec, for clusters that do not have it; it is
            then set at admission, as it always is in KFP, whose specs have no place for it.

    Raises:
        PolicyError: A value is not one that the contract allows.
    """
    said = {"tier": tier, "max_slowdown": max_slowdown, "max_stall": max_stall, "on_preempt": on_preempt}
    if tier is None:
        raise PolicyError(
            Problem("priority-value", "priority() names no tier", "a priority is one of high, normal, low")
        )
    directive = _directive("priority", said, positional="tier", retries=retries)
    return Applicable(directive if priority_class else _without_class(directive))


def _without_class(directive: Directive) -> Directive:
    source = f"{directive.source[:-1]}, priority_class=False)"
    return directive._replace(source=source, priority_class=False)


def _directive(name: str, said: dict[str, object], *, positional: str, retries: int | None = None) -> Directive:
    present = {argument: value for argument, value in said.items() if value is not None}
    words = [repr(value) if argument == positional else f"{argument}={value!r}" for argument, value in present.items()]
    source = f"{name}({', '.join(words + ([f'retries={retries!r}'] if retries is not None else []))})"
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for term in table.TERMS:
        where, _, argument = term.argument.rstrip(")=").partition("(")
        if where != name or argument not in present:
            continue
        subject = f"{argument} in {source if len(source) <= 100 else name + '(…)'}"
        try:
            text = _text(present[argument], numbers=argument in ("share", "limit"))
            values[term.field] = read_term(term, text, subject=subject, parameters=True)
        except PolicyError as error:
            problems.extend(error.problems)
    if retries is not None and (
        isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= _RETRIES_MAX
    ):
        problems.append(
            Problem("retries-value", f"retries is {echo(retries)}", "retries is a whole number from 0 to 1000")
        )
    terms = Terms(**values)
    if not problems and name == "gpu_share" and not present:
        problems.append(Problem("missing-share", "gpu_share() says nothing", "it takes a share, a memory, or both"))
    problems += inconsistencies(terms) if not problems else []
    if problems:
        raise PolicyError(*problems)
    return Directive(name, terms, source, retries)


def _text(value: object, *, numbers: bool) -> object:
    """Return a decorator argument as annotation text; what has none is returned as it is, for the reader to refuse."""
    if numbers and isinstance(value, Real) and not isinstance(value, bool):
        # 0.1 + 0.2 is meant as 0.3; a third is refused with its nearest thousandth as the fix.
        number = float(value)
        return f"{number:.12f}".rstrip("0").rstrip(".") if 0 <= number < 1e6 else str(value)
    package = _package(value)
    if package == "kfp" and hasattr(value, "full_name"):
        return f"{{{{channel:{value.full_name}}}}}"
    if package == "hera":
        return import_module(_ADAPTERS[package]).parameter_text(value)
    return value


def _package(value: object) -> str | None:
    modules = [cls.__module__ for cls in type(value).__mro__]
    if isinstance(value, FunctionType):
        modules += [getattr(layer, "__globals__", {}).get("__name__", "") for layer in tags.layers(value)]
    roots = (module.partition(".")[0] for module in modules)
    return next((root for root in roots if root in _ADAPTERS), None)


def _tell_adapters(function: str) -> None:
    for framework, adapter in _ADAPTERS.items():
        call_when_imported(framework, adapter, function)


def apply(target: Target, directive: Directive) -> Target:
    """Apply a directive to whatever `target` is. See `Applicable.__call__`."""
    package = _package(target)
    if package is not None:
        applied: Target = import_module(_ADAPTERS[package]).apply(target, directive)
        return applied
    if isinstance(target, FunctionType):
        tags.stamp(target, directive)
        _tell_adapters("watch_functions")
        return target
    raise TypeError(
        f"{directive.source} cannot be applied to {echo(target)} of type {type(target).__qualname__}: it takes a KFP "
        "component or task, a Hera template or script, or the function below @dsl.component or @script"
    )


_defaults: contextvars.ContextVar[tuple[Tags, ...]] = contextvars.ContextVar("pillion_defaults", default=())


def current_defaults() -> Tags:
    """Return what the surrounding `defaults(...)` say; the innermost wins."""
    said = Tags()
    for level in reversed(_defaults.get()):
        said = said.over(level)
    return said


class defaults:  # noqa: N801 - used like contextlib's own
    """What holds for every step of a block, or of a pipeline function, that does not say it itself.

    A default with a share or a memory makes every step in it use the GPU. A default with only a priority applies to the
    steps that say `gpu_share` themselves; the others do not use a GPU and stay as they are.

        with pillion.defaults(priority="low", memory="4Gi"):
            ...

        @dsl.pipeline
        @pillion.defaults(priority="low", on_preempt="evict")
        def nightly(): ...

    Args:
        share: As in `gpu_share`.
        limit: As in `gpu_share`.
        memory: As in `gpu_share`.
        container: As in `gpu_share`.
        priority: The tier, as in `priority`.
        max_slowdown: As in `priority`.
        max_stall: As in `priority`.
        on_preempt: As in `priority`.
        retries: As in `priority`.
        priority_class: As in `priority`.

    Raises:
        PolicyError: A value is not one that the contract allows.
    """

    def __init__(
        self,
        *,
        share: object = None,
        limit: object = None,
        memory: object = None,
        container: object = None,
        priority: object = None,
        max_slowdown: object = None,
        max_stall: object = None,
        on_preempt: object = None,
        retries: int | None = None,
        priority_class: bool = True,
    ) -> None:
        of_share = {"share": share, "limit": limit, "memory": memory, "container": container}
        of_priority = {
            "max_slowdown": max_slowdown,
            "max_stall": max_stall,
            "on_preempt": on_preempt,
        }
        says_share = any(value is not None for value in of_share.values())
        said = Tags()
        if says_share:
            said = said.adding(gpu_share(**of_share).directive)
        says_priority = any(value is not None for value in (priority, retries, *of_priority.values()))
        if says_priority or not priority_class:
            tier = priority if priority is not None else table.DEFAULT_TIER.value
            said = said.adding(_priority(tier, retries=retries, priority_class=priority_class, **of_priority).directive)
        if not said:
            raise PolicyError(
                Problem("missing-share", "defaults() says nothing", "it takes a share, a memory, a priority")
            )
        self.tags = said
        self._tokens: list[contextvars.Token[tuple[Tags, ...]]] = []

    def __call__(self, target: Any) -> Any:
        """Wrap a pipeline function, below `@dsl.pipeline`; or give a Hera workflow its defaults.

        Raises:
            PolicyError: The pipeline has been built already: the decorator stands above `@dsl.pipeline`.
        """
        package = _package(target)
        if package is not None:
            return import_module(_ADAPTERS[package]).apply_defaults(target, self.tags)

        @functools.wraps(target)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return target(*args, **kwargs)

        setattr(within, tags.DEFAULTS_ATTRIBUTE, self.tags)
        _tell_adapters("watch_functions")
        return within

    def __enter__(self) -> defaults:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        self._tokens.append(_defaults.set((*_defaults.get(), self.tags)))
        _tell_adapters("watch_defaults")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _defaults.reset(self._tokens.pop())


_priority = priority  # `defaults` has an argument of that name
