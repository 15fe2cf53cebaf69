"""The catalogue of rules: every code that a message of Pillion's can carry, how severe it is, and what to do about it.

`docs/rules.md` is written from it by `tools/generate_rules.py`; the SARIF report takes its help texts from it.
"""

from pillion.check.catalogue import authoring, manifests
from pillion.check.catalogue.rule import FAMILIES, Rule

RULES: dict[str, Rule] = {rule.code: rule for rule in (*manifests.RULES, *authoring.RULES)}

__all__ = ["FAMILIES", "RULES", "Rule"]
