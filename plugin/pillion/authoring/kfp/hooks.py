"""The places in kfp where Pillion listens.

kfp offers no such places, so a few of its functions are wrapped, each once and only when something first needs it. A
kfp in which such a function is missing or works differently is refused: a policy must not be lost without a word.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import kfp

_MARK = "__pillion_hook__"

# Gets the original function and its arguments, by position and by name.
Around = Callable[..., Any]


class UnsupportedKfpError(RuntimeError):
    """This release of kfp works differently from those that Pillion knows."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"kfp {kfp.__version__} has no {missing}, by which Pillion keeps policies on their steps; "
            "install a release that this Pillion supports: pip install 'pillion[kfp]'"
        )


def wrap(owner: Any, name: str, around: Around) -> None:
    """Let `around(original, *args, **kwargs)` stand in for `owner.name`; once, however often it is asked for.

    Raises:
        UnsupportedKfpError: There is no such function.
    """
    original = vars(owner).get(name)
    if not inspect.isfunction(original):
        raise UnsupportedKfpError(f"{owner.__name__}.{name}")
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(hooked, _MARK, True)
    setattr(owner, name, hooked)


def arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], *needed: str
) -> tuple[Any, ...]:
    """Return the arguments called `needed` of a call of `function`.

    Raises:
        UnsupportedKfpError: It takes no argument of that name.
    """
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    for name in needed:
        if name not in given:
            raise UnsupportedKfpError(f"argument {name} of {function.__qualname__}")
    return tuple(given[name] for name in needed)
