"""The driver's checkpoint calls on other processes: states, memory, and what the target notices."""

from pillion_node.emulator import Machine

MIB = 1 << 20

TARGET = """
import threading
context()
memory = ok(d.cuMemAlloc(600 << 20))
ok(d.cuMemsetD8(memory, 42, 4096))
f = kernel(b"spin_1ms")
ok(d.cuCtxSynchronize())
say("up")
for line in sys.stdin:
    if "launch" in line:
        launch(f)
        say("launched")
    elif "long" in line:
        launch(kernel(b"burn_400ms"))
        say("launched")
    elif "read" in line:
        back = bytearray(4)
        ok(d.cuMemcpyDtoH(back, memory, 4))
        say(back.hex())
"""

AGENT = """
ok(d.cuInit(0))
say("up")
for line in sys.stdin:
    call, pid, more = json.loads(line)
    if call == "Lock":
        arguments = d.CUcheckpointLockArgs()
        arguments.timeoutMs = more
        say(d.cuCheckpointProcessLock(pid, arguments)[0].name)
    elif call == "State":
        result = d.cuCheckpointProcessGetState(pid)
        say(result[1].name if result[0].value == 0 else result[0].name)
    else:
        say(getattr(d, "cuCheckpointProcess" + call)(pid, None)[0].name)
"""


def pair(client, machine):
    target, agent = client(machine, TARGET), client(machine, AGENT)
    assert [target.hear(), agent.hear()] == ["up", "up"]

    def ask(call, more=0, pid=target.pid):
        agent.tell(call, pid, more)
        return agent.hear()

    return target, ask


def memory(machine):
    with Machine.open(machine) as opened:
        device = opened.snapshot()
    return device.memory_used_bytes // MIB, device.host_used_bytes // MIB


def test_a_locked_process_stands_still_and_goes_on_after_unlock(machine, client):
    target, ask = pair(client, machine)
    assert ask("Lock", 2000) == "CUDA_SUCCESS"
    assert ask("State") == "CU_PROCESS_STATE_LOCKED"
    target.tell("launch")
    with Machine.open(machine) as opened:
        before = opened.snapshot()
    assert [c.launches for c in before.contexts] == [0]
    assert ask("Unlock") == "CUDA_SUCCESS"
    assert target.hear() == "launched"


def test_a_checkpoint_frees_the_device_and_restore_brings_the_bytes_back(machine, client):
    target, ask = pair(client, machine)
    assert memory(machine) == (600, 0)
    assert ask("Lock", 2000) == "CUDA_SUCCESS"
    assert ask("Checkpoint") == "CUDA_SUCCESS"
    assert ask("State") == "CU_PROCESS_STATE_CHECKPOINTED"
    assert memory(machine) == (0, 600)
    assert ask("Restore") == "CUDA_SUCCESS"
    assert ask("Unlock") == "CUDA_SUCCESS"
    assert memory(machine) == (600, 0)
    target.tell("read")
    assert target.hear() == "2a2a2a2a"


def test_restore_fails_while_there_is_no_room_and_loses_nothing(machine, client):
    target, ask = pair(client, machine)
    for step in ("Lock", "Checkpoint"):
        assert ask(step) == "CUDA_SUCCESS"
    other = client(machine, "context()\nok(d.cuMemAlloc(700 << 20))\nsay('up')\nheard()")
    assert other.hear() == "up"
    assert ask("Restore") == "CUDA_ERROR_OUT_OF_MEMORY"
    assert ask("State") == "CU_PROCESS_STATE_CHECKPOINTED"
    other.kill()
    for step in ("Restore", "Unlock"):
        assert ask(step) == "CUDA_SUCCESS"
    target.tell("read")
    assert target.hear() == "2a2a2a2a"


def test_a_lock_that_times_out_leaves_the_process_running(machine, client):
    target, ask = pair(client, machine)
    target.tell("long")
    assert target.hear() == "launched"
    assert ask("Lock", 30) == "CUDA_ERROR_NOT_READY"
    assert ask("State") == "CU_PROCESS_STATE_RUNNING"
    target.tell("launch")
    assert target.hear() == "launched"
    assert ask("Lock", 5000) == "CUDA_SUCCESS"  # waits for what is queued


def test_states_are_enforced(machine, client):
    target, ask = pair(client, machine)
    for wrong in ("Checkpoint", "Restore", "Unlock"):
        assert ask(wrong) == "CUDA_ERROR_ILLEGAL_STATE"
    assert ask("Lock") == "CUDA_SUCCESS"
    assert ask("Lock") == "CUDA_ERROR_ILLEGAL_STATE"
    assert ask("Restore") == "CUDA_ERROR_ILLEGAL_STATE"
    assert ask("Lock", pid=1) == "CUDA_ERROR_INVALID_VALUE"
    assert ask("State", pid=1) == "CUDA_ERROR_INVALID_VALUE"
    target.kill()
    assert ask("Unlock") == "CUDA_ERROR_INVALID_VALUE"


def test_a_checkpointed_process_that_dies_gives_its_host_memory_back(machine, client):
    target, ask = pair(client, machine)
    for step in ("Lock", "Checkpoint"):
        assert ask(step) == "CUDA_SUCCESS"
    target.kill()
    assert memory(machine) == (0, 0)
