"""The three reports say the same: lines for people, JSON for programs, SARIF 2.1.0 for code review tools."""

import json

import jsonschema
import pytest

from pillion import __version__
from pillion.authoring.findings import Finding, Position
from pillion.check import check_text
from pillion.check.catalogue import RULES
from pillion.check.report import as_json, as_sarif, as_text
from pillion.policy import Problem

TEXT = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels:
    pillion.dev/managed: "true"
  annotations:
    pillion.dev/share: "1.5"
    pillion.dev/priority: high
    pillion.dev/on-preempt: wait
spec:
  containers: [{name: main, image: busybox}]
"""


@pytest.fixture
def findings():
    found = check_text(TEXT, "jobs/my pod.yaml")
    assert [finding.problem.code for finding in found] == ["share-value", "on-preempt-on-high"]
    return found


def test_text(findings):
    assert as_text(findings, files=3).splitlines() == [
        'jobs/my pod.yaml:8:5: error[share-value]: Pod "p": pillion.dev/share is "1.5" — a share is at least 0.01 and at '
        "most 1, such as 0.5 or 500m — one step shares one GPU; a step that needs more asks for whole GPUs instead",
        'jobs/my pod.yaml:10:5: warning[on-preempt-on-high]: Pod "p": pillion.dev/on-preempt is set on a high step — '
        "nothing preempts a high step — remove it",
        "3 files checked: 1 error, 1 warning",
    ]


@pytest.mark.parametrize(
    ("number", "files", "last"),
    [(0, 1, "1 file checked: no mistakes"), (1, 1, "1 file checked: 1 error"), (2, 2, "2 files checked: 2 errors")],
)
def test_text_counts(number, files, last):
    found = [Finding("f.yaml", None, Problem("yaml-syntax", f"mistake {n}", "none")) for n in range(number)]
    assert as_text(found, files=files).splitlines()[-1] == last


def test_json(findings):
    assert json.loads(as_json(findings, files=1)) == {
        "files": 1,
        "errors": 1,
        "warnings": 1,
        "findings": [
            {
                "file": "jobs/my pod.yaml",
                "line": 8,
                "column": 5,
                "severity": "error",
                "code": "share-value",
                "where": 'Pod "p"',
                "what": 'pillion.dev/share is "1.5"',
                "allowed": "a share is at least 0.01 and at most 1, such as 0.5 or 500m",
                "fix": "one step shares one GPU; a step that needs more asks for whole GPUs instead",
                "key": "pillion.dev/share",
            },
            {
                "file": "jobs/my pod.yaml",
                "line": 10,
                "column": 5,
                "severity": "warning",
                "code": "on-preempt-on-high",
                "where": 'Pod "p"',
                "what": "pillion.dev/on-preempt is set on a high step",
                "allowed": "nothing preempts a high step",
                "fix": "remove it",
                "key": None,
            },
        ],
    }


def test_json_of_a_finding_without_a_place():
    found = [Finding("p.py", None, Problem("missing-share", "no share", "a share"))]
    (entry,) = json.loads(as_json(found, files=1))["findings"]
    assert (entry["line"], entry["column"]) == (None, None)


# What SARIF 2.1.0 (OASIS, section 3) demands of the parts that are used here, and no other members.
TEXT_SCHEMA = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT_SCHEMA,
                                                "help": TEXT_SCHEMA,
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "properties": {
                                                        "level": {"enum": ["none", "note", "warning", "error"]}
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": -1},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": TEXT_SCHEMA,
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation"],
                                                "additionalProperties": False,
                                                "properties": {
                                                    "artifactLocation": {
                                                        "type": "object",
                                                        "properties": {
                                                            "uri": {"type": "string", "pattern": "^[!-~]+$"}
                                                        },
                                                    },
                                                    "region": {
                                                        "type": "object",
                                                        "additionalProperties": False,
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture
def sarif(findings):
    log = json.loads(as_sarif(findings, files=1))
    jsonschema.validate(log, SARIF)
    return log["runs"][0]


def test_sarif_is_valid_without_findings():
    log = json.loads(as_sarif([], files=1))
    jsonschema.validate(log, SARIF)
    assert log["runs"][0]["results"] == []


def test_sarif_results_have_places_and_rules(sarif):
    assert [
        (result["ruleId"], result["level"], result["locations"][0]["physicalLocation"]) for result in sarif["results"]
    ] == [
        (
            "share-value",
            "error",
            {"artifactLocation": {"uri": "jobs/my%20pod.yaml"}, "region": {"startLine": 8, "startColumn": 5}},
        ),
        (
            "on-preempt-on-high",
            "warning",
            {"artifactLocation": {"uri": "jobs/my%20pod.yaml"}, "region": {"startLine": 10, "startColumn": 5}},
        ),
    ]
    rules = sarif["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in sarif["results"])


def test_sarif_rules_bring_their_help(sarif):
    driver = sarif["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("pillion", __version__)
    for rule in driver["rules"]:
        known = RULES[rule["id"]]
        assert rule["shortDescription"]["text"] == known.summary
        assert rule["defaultConfiguration"]["level"] == known.severity
        assert known.fix in rule["help"]["markdown"]


def test_sarif_of_a_finding_without_a_place_has_no_region():
    log = json.loads(as_sarif([Finding("p.py", None, Problem("missing-share", "no share", "a share"))], files=1))
    jsonschema.validate(log, SARIF)
    assert log["runs"][0]["results"][0]["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "p.py"}}}]


def test_positions_count_characters_from_one():
    (finding,) = check_text('kind: Pod\napiVersion: v1\nmetadata: {name: "ä😀", nom: x}\n', "f.yaml")
    assert finding.position == Position(3, 24)
