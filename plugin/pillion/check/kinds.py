"""Kinds and versions: objects that are nearly ones Pillion knows, which would otherwise be passed over in silence."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pillion.authoring.findings import Finding
from pillion.check.manifest import VERSIONS, Manifest, Object, found
from pillion.policy import Problem, echo

_GROUPS = {group for group, _ in VERSIONS}
# Where old versions of the known kinds lived, and where misplaced ones are written.
_BUILT_IN_GROUPS = _GROUPS | {"extensions", "argoproj"}
# Real kinds of these groups whose names are near to those of known ones.
_OTHER_KINDS = {"WorkflowTaskSet", "WorkflowTaskResult", "WorkflowArtifactGCTask", "ControllerRevision"}


def kinds(manifest: Manifest) -> Iterator[Finding]:
    """Find known kinds of unknown versions, and kinds that are misspelt or missing beside a known version."""
    for thing in manifest.objects:
        problem = _version(thing) if isinstance(thing.kind, str) else _kind_missing(thing)
        if problem is not None:
            yield found(thing.document, (*thing.path, _at_fault(thing, problem)), problem)


def _at_fault(thing: Object, problem: Problem) -> str:
    key = "apiVersion" if problem.code == "unknown-version" else "kind"
    return key if key in thing.data else next(iter(thing.data), key)


def _version(thing: Object) -> Problem | None:
    expected = [(group, version) for (group, kind), version in VERSIONS.items() if kind == thing.kind]
    if not expected:
        return _misspelt(thing)
    ((group, version),) = expected
    if thing.known or (isinstance(thing.api_version, str) and thing.group not in _BUILT_IN_GROUPS):
        return None
    wanted = f"{group}/{version}" if group else version
    given = f"apiVersion is {echo(thing.api_version)}" if "apiVersion" in thing.data else "there is no apiVersion"
    return Problem("unknown-version", f"{thing.kind}: {given}", f"a {thing.kind} is of {wanted}", f"write {wanted}")


def _misspelt(thing: Object) -> Problem | None:
    if not _of_known_version(thing) or thing.kind in _OTHER_KINDS or thing.kind.endswith("List"):
        return None
    candidates = {kind.lower(): kind for group, kind in VERSIONS if group == thing.group}
    near = difflib.get_close_matches(thing.kind.lower(), candidates, n=1, cutoff=0.8)
    if not near:
        return None
    return Problem(
        "unknown-kind", f"kind is {echo(thing.kind)}", f"{thing.api_version} has no such kind",
        f"did you mean {candidates[near[0]]}?",
    )  # fmt: skip


def _kind_missing(thing: Object) -> Problem | None:
    if not _of_known_version(thing):
        return None
    given = f"kind is {echo(thing.kind)}" if thing.kind is not None else "there is no kind"
    names = ", ".join(kind for group, kind in VERSIONS if group == thing.group)
    return Problem("unknown-kind", given, f"an object of {thing.api_version} says its kind, such as {names}")


def _of_known_version(thing: Object) -> bool:
    if not isinstance(thing.api_version, str) or thing.group not in _GROUPS:
        return False
    return thing.api_version.rpartition("/")[2] in {v for (group, _), v in VERSIONS.items() if group == thing.group}
