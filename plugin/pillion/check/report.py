"""What was found, as text for people, as JSON for programs, as SARIF 2.1.0 for code review tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from pillion import __version__
from pillion.authoring.findings import Finding
from pillion.check.catalogue import RULES

_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_text(findings: Iterable[Finding], *, files: int) -> str:
    """Write one line per finding, and a last line that counts them."""
    held = list(findings)
    return "\n".join([*map(str, held), _summary(held, files)])


def _summary(findings: list[Finding], files: int) -> str:
    counts = _counts(findings)
    told = [_counted(counts[severity], severity) for severity in ("error", "warning") if counts[severity]]
    return f"{_counted(files, 'file')} checked: {', '.join(told) or 'no mistakes'}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _counts(findings: list[Finding]) -> dict[str, int]:
    errors = sum(finding.severity == "error" for finding in findings)
    return {"error": errors, "warning": len(findings) - errors}


def as_json(findings: Iterable[Finding], *, files: int) -> str:
    """Write one JSON object.

    Its members: `files`, `errors` and `warnings` (how many of each), and `findings`, each as `finding_as_json` has it.
    """
    held = list(findings)
    counts = _counts(held)
    report = {
        "files": files,
        "errors": counts["error"],
        "warnings": counts["warning"],
        "findings": [finding_as_json(finding) for finding in held],
    }
    return json.dumps(report, indent=2, ensure_ascii=False)


def finding_as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON has it.

    Returns:
        `file`; `line` and `column`, from 1, or null; `severity`, `error` or `warning`; `code`; `where`, the step, or
        empty; `what` was given; what is `allowed`; the `fix`, or empty; `key`, the annotation at fault, or null.
    """
    position, problem = finding.position, finding.problem
    return {
        "file": finding.file,
        "line": position.line if position else None,
        "column": position.column if position else None,
        "severity": finding.severity,
        "code": problem.code,
        "where": problem.where,
        "what": problem.what,
        "allowed": problem.allowed,
        "fix": problem.fix,
        "key": problem.key,
    }


def as_sarif(findings: Iterable[Finding], *, files: int) -> str:  # noqa: ARG001 - the three writers are called alike
    """Write one SARIF 2.1.0 log with one run. Its rules are those that were broken, each with its help."""
    held = list(findings)
    codes = sorted({finding.problem.code for finding in held})
    log = {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "pillion", "version": __version__, "rules": list(map(_sarif_rule, codes))}},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(finding, codes.index(finding.problem.code)) for finding in held],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _sarif_rule(code: str) -> dict[str, Any]:
    rule = RULES[code]
    return {
        "id": code,
        "shortDescription": {"text": rule.summary},
        "help": {"text": f"{rule.summary} {rule.fix}".replace("`", ""), "markdown": f"{rule.summary}\n\n{rule.fix}"},
        "defaultConfiguration": {"level": rule.severity},
    }


def _sarif_result(finding: Finding, rule: int) -> dict[str, Any]:
    problem, position = finding.problem, finding.position
    parts = (f"{problem.where}: {problem.what}" if problem.where else problem.what, problem.allowed, problem.fix)
    region = {"region": {"startLine": position.line, "startColumn": position.column}} if position else {}
    uri = quote(PurePath(finding.file).as_posix())
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": " — ".join(part for part in parts if part)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}],
    }
