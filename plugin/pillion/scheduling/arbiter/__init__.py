"""Who holds one GPU now: `decide(state, now_ns)`.

The agent drives it in real time, the simulator in virtual time.
"""

from pillion.scheduling.arbiter.decide import decide
from pillion.scheduling.arbiter.terms import (
    NEVER_NS,
    UNCAPPED,
    Action,
    ActionKind,
    Decision,
    Gpu,
    Grant,
    Lease,
    LeaseState,
    Report,
    Residence,
    Standing,
    State,
    Tenant,
    Tuning,
    running,
)
from pillion.scheduling.arbiter.window import Usage

__all__ = [
    "NEVER_NS",
    "UNCAPPED",
    "Action",
    "ActionKind",
    "Decision",
    "Gpu",
    "Grant",
    "Lease",
    "LeaseState",
    "Report",
    "Residence",
    "Standing",
    "State",
    "Tenant",
    "Tuning",
    "Usage",
    "decide",
    "running",
]
