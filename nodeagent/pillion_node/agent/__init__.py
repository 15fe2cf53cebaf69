"""The node agent: who may submit to which GPU, told to the gate in every process. `docs/agent.md` describes it."""

from pillion_node.agent.config import AgentError, Config, default_directory
from pillion_node.agent.devices import Devices, EmulatedDevices, NvmlDevices, find_devices
from pillion_node.agent.log import Log
from pillion_node.agent.loop import Agent

__all__ = [
    "Agent",
    "AgentError",
    "Config",
    "Devices",
    "EmulatedDevices",
    "Log",
    "NvmlDevices",
    "default_directory",
    "find_devices",
]
