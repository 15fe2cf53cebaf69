"""The field tables of Argo's, Kubernetes' and KFP's types: generated data, read once, when the first file is checked.

`tools/generate_schema.py` writes the tables and explains their notation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "schema"
# Argo's Go types embed the Kubernetes container, so they get the fields of newer ones too.
_EMBED_CONTAINER = ("argo.ContainerNode", "argo.ScriptTemplate", "argo.UserContainer")


@dataclass(frozen=True)
class Tables:
    """What is known about types.

    Attributes:
        types: Type name to field name to shape.
        kinds: Kubernetes kind to type name.
        kfp: The types of KFP's `pipeline` and `platform` documents, and of a `kubernetes` executor's configuration.
    """

    types: Mapping[str, Mapping[str, str]]
    kinds: Mapping[str, str]
    kfp: Mapping[str, str]


@cache
def tables() -> Tables:
    """Load the tables. A Kubernetes type has every field that either Argo's models or Kubernetes' own know."""
    argo, kubernetes, kfp = (
        json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("argo", "kubernetes", "kfp")
    )
    types: dict[str, dict[str, str]] = {**argo["types"], **kfp["types"]}
    for name, fields in kubernetes["types"].items():
        types[name] = {**types.get(name, {}), **fields}
    for name in _EMBED_CONTAINER:
        types[name] = {**types["k8s.Container"], **types[name]}
    return Tables(types, {**argo["roots"], **kubernetes["roots"]}, kfp["roots"])
