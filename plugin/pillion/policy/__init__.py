"""The contract: what a pod says and what it means. Knows nothing else of Pillion; needs the standard library only.

Its values are named tuples: as frozen as dataclasses, whose import alone would double the time that
`import pillion` takes in every step's process.
"""

from pillion.policy.annotations import examine, is_ours, is_parameter, policy_hash, read, read_term, unknown_key, write
from pillion.policy.problems import PolicyError, PolicyWarning, Problem, echo
from pillion.policy.resources import is_whole_gpu
from pillion.policy.table import (
    BY_FIELD,
    BY_KEY,
    HASH_ENV,
    MANAGED_LABEL,
    MANAGED_VALUE,
    PREFIX,
    PRIORITY_CLASS,
    TERMS,
    Term,
)
from pillion.policy.terms import Parameter, Policy, Terms, inconsistencies, omissions, resolve
from pillion.policy.units import Memory, OnPreempt, Tier

__all__ = [
    "BY_FIELD",
    "BY_KEY",
    "HASH_ENV",
    "MANAGED_LABEL",
    "MANAGED_VALUE",
    "PREFIX",
    "PRIORITY_CLASS",
    "TERMS",
    "Memory",
    "OnPreempt",
    "Parameter",
    "Policy",
    "PolicyError",
    "PolicyWarning",
    "Problem",
    "Term",
    "Terms",
    "Tier",
    "echo",
    "examine",
    "inconsistencies",
    "is_ours",
    "is_parameter",
    "is_whole_gpu",
    "omissions",
    "policy_hash",
    "read",
    "read_term",
    "resolve",
    "unknown_key",
    "write",
]
