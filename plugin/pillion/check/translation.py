"""Other systems' words for sharing a GPU: Pillion does not act on them, and translates them when it is asked to."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.containers import bodies, requests
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.steps import Step
from pillion.authoring.translate import WORDS
from pillion.check.manifest import Manifest, found
from pillion.policy import Problem, is_ours

_SYSTEMS = {"kai": "KAI Scheduler", "hami": "HAMi", "nvidia": "NVIDIA's device plugin"}
_SYSTEM_OF = {word: system for system, words in WORDS.items() for word in words}


def translation(manifest: Manifest) -> Iterator[Finding]:
    """Find the words that `pillion compile --from` translates, once per step and system."""
    for step in manifest.steps:
        words: dict[str, list[tuple[str, Document, Path_]]] = {}
        for word, document, path in _words(step):
            words.setdefault(_SYSTEM_OF[word], []).append((word, document, path))
        for system, entries in words.items():
            _, document, path = entries[0]
            named = ", ".join(dict.fromkeys(word for word, _, _ in entries))
            yield found(document, path, _problem(step, system, named))


def _words(step: Step) -> Iterator[tuple[str, Document, Path_]]:
    for key in step.annotations:
        if key in _SYSTEM_OF and step.metadata_document is not None:
            yield key, step.metadata_document, (*step.metadata_path, "annotations", key)
    for _, container in bodies(step):
        for request in requests(step, container):
            if request.resource in _SYSTEM_OF:
                yield request.resource, step.document, request.path


def _problem(step: Step, system: str, words: str) -> Problem:
    asks = f"{words} asks {_SYSTEMS[system]} to share the GPU"
    if any(map(is_ours, step.effective)):
        return Problem(
            "foreign-words-beside-policy", f"{asks}, and the policy asks Pillion", "one of the two shares a GPU",
            "keep one", where=step.where,
        )  # fmt: skip
    return Problem(
        "foreign-words", asks, "Pillion does not act on it",
        f"pillion compile --from {system} translates it", where=step.where,
    )  # fmt: skip
