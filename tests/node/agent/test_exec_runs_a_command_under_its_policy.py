import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pillion_node import emulator
from pillion_node.local import Client

WORK = """
    context()
    steps(kernel(b"k_500us"), until_told=True)
"""


def test_two_steps_get_the_gpu_in_proportion_to_their_shares(execute, directory, eventually):
    larger, smaller = execute("--share", "0.7", script=WORK), execute("--share", "0.3", script=WORK)
    assert larger.hear() == "first"
    assert smaller.hear() == "first"

    def device_ns():
        gpu = Client(directory).ask(op="status")["status"]["gpus"][0]
        return {t["policy"]["pillion.dev/share"]: t["device_ns"] for t in gpu["tenants"]}

    before = device_ns()
    # Two seconds of device time are two windows at least.
    eventually(lambda: sum(device_ns().values()) - sum(before.values()) > 2_000_000_000)
    after = device_ns()
    used = {share: after[share] - before[share] for share in after}
    assert used["0.7"] / sum(used.values()) == pytest.approx(0.7, abs=0.06)
    for command in (larger, smaller):
        command.tell()
        code, _, errors = command.finish()
        assert code == 0
        assert errors.startswith("pillion: EMULATED GPU (")


def test_a_low_step_is_admitted_beside_a_high_one(execute, directory, eventually):
    high = execute("--priority", "high", "--share", "0.5", script="""
        context()
        function = kernel(b"k_500us")
        told = threading.Event()
        threading.Thread(target=lambda: (heard(), told.set()), daemon=True).start()
        launch(function); say("first")
        while not told.wait(0.003):
            launch(function, 4)
            ok(d.cuCtxSynchronize())
    """)  # fmt: skip
    assert high.hear() == "first"
    low = execute("--priority", "low", "--memory", "64Mi", script=WORK)
    assert low.hear() == "first"

    def tenants():
        gpu = Client(directory).ask(op="status")["status"]["gpus"][0]
        return {t["policy"]["pillion.dev/priority"]: t for t in gpu["tenants"]}

    eventually(lambda: tenants()["low"]["device_ns"] > 100_000_000)
    # It has seen the high step's pauses: only admission charges, and only beside a high step.
    eventually(lambda: tenants()["low"]["processes"][0]["claims"]["charged_ns"] > 0)
    assert tenants()["high"]["lease"] == {"state": "run", "epoch": 1, "open": False}
    for command in (high, low):
        command.tell()
        assert command.finish()[0] == 0


def test_memory_beyond_the_quota_is_refused_as_a_smaller_card_would(execute):
    command = execute("--priority", "low", "--memory", "64Mi", script="""
        context()
        say(d.cuMemAlloc(64 << 20)[0].name, d.cuMemAlloc(1)[0].name, ok(d.cuMemGetInfo())[1] >> 20)
    """)  # fmt: skip
    code, out, errors = command.finish()
    assert (code, json.loads(out)) == (0, ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY", 64]), errors


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["/nonexistent/program"], 127),
        (["/"], 126),
    ],
)
def test_the_exit_code_is_the_commands(execute, command, code):
    assert execute("--share", "0.5", command=command).finish()[0] == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_go_to_the_command(execute, number):
    script = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        "print('[0]', flush=True)\n"
        "while True: signal.pause()"
    )
    command = execute("--share", "0.5", command=[sys.executable, "-c", script])
    command.hear()
    command.process.send_signal(number)
    assert command.finish()[0] == 42


def test_the_command_starts_with_the_signals_that_exec_was_started_with(execute):
    code, out, _ = execute("--share", "0.5", command=["/bin/cat", "/proc/self/status"]).finish()
    assert code == 0
    blocked = re.search(r"SigBlk:\s+([0-9a-f]+)", out)
    ignored = re.search(r"SigIgn:\s+([0-9a-f]+)", out)
    here = Path("/proc/self/status").read_text()
    assert int(blocked[1], 16) == int(re.search(r"SigBlk:\s+([0-9a-f]+)", here)[1], 16)
    assert not int(ignored[1], 16) >> (signal.SIGPIPE - 1) & 1


def test_grandchildren_whose_parents_have_gone_are_still_the_commands(execute, directory, eventually):
    command = execute("--share", "0.5", script="""
        ended, end = os.pipe()
        if os.fork() == 0:
            os.setsid()
            parent = os.getpid()
            if os.fork() == 0:
                os.close(end)
                while os.getppid() == parent: os.sched_yield()
                context()
                launch(kernel(b"k_10us"))
                say("joined", os.getpid())
                os.read(ended, 1)
            os._exit(0)
        os.wait()
        heard()
    """)  # fmt: skip
    _, pid = command.hear()
    gpu = Client(directory).ask(op="status")["status"]["gpus"][0]
    assert [[process["pid"] for process in tenant["processes"]] for tenant in gpu["tenants"]] == [[pid]]
    command.tell()
    assert command.finish()[0] == 0


def test_the_first_command_starts_an_agent_and_the_next_one_finds_it(execute, directory):
    first = execute("--share", "0.4", command=["sh", "-c", "echo '[1]'; read line"])
    first.hear()
    agent = Client(directory).ask(op="status")["status"]["pid"]
    second = execute("--share", "0.4", command=["sh", "-c", "echo '[1]'; read line"])
    second.hear()
    status = Client(directory).ask(op="status")["status"]
    assert status["pid"] == agent
    assert len(status["gpus"][0]["tenants"]) == 2
    for command in (first, second):
        command.tell()
        assert command.finish()[0] == 0


def test_commands_that_start_at_once_share_one_agent(execute, directory):
    commands = [
        execute("--priority", "low", "--memory", "1Mi", command=["sh", "-c", "echo '[1]'; read line"]) for _ in range(4)
    ]
    for command in commands:
        command.hear()
    assert len(Client(directory).ask(op="status")["status"]["gpus"][0]["tenants"]) == 4
    for command in commands:
        command.tell()
        assert command.finish()[0] == 0


def test_what_cannot_be_guaranteed_is_refused(execute):
    first = execute("--share", "0.7", command=["sh", "-c", "echo '[1]'; read line"])
    first.hear()
    code, out, errors = execute("--share", "0.4", command=["echo", "ran"]).finish()
    assert (code, out) == (125, "")
    assert "GPU 0 has 0.3 of its time left to guarantee, the step asks for 0.4" in errors
    code, out, errors = execute("--priority", "low", "--memory", "2Gi", command=["echo", "ran"]).finish()
    assert (code, out) == (125, "")
    assert "GPU 0 has 307Mi of its memory left, the step asks for 2048Mi" in errors
    code, out, errors = execute("--share", "0.1", "--gpu", "3", command=["echo", "ran"]).finish()
    assert (code, out) == (125, "")
    assert "gpu is 3; this machine has 1, counted from 0" in errors
    first.tell()
    assert first.finish()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "a normal step says no share"),
        (["--share", "1.5"], '--share is "1.5"'),
        (["--share", "0.5", "--limit", "0.2"], "limit 0.2 is below share 0.5"),
        (["--priority", "low"], "a low step says no memory"),
        (["--priority", "urgent"], '--priority is "urgent"'),
        (["--share", "0.5", "--max-slowdown", "1%"], "max-slowdown is set on a normal step"),
        (["--priority", "high", "--share", "0.5", "--max-stall", "1h"], '--max-stall is "1h"'),
        (["--share", "0.5", "--on-preempt", "die"], '--on-preempt is "die"'),
        (["--share", "0.5", "--memory", "lots"], '--memory is "lots"'),
        (["--share", "{{inputs.parameters.share}}"], "run-time parameters are possible in Argo and Hera only"),
    ],
)
def test_misuse_is_refused_in_the_contracts_words(execute, directory, arguments, says):
    code, out, errors = execute(*arguments, command=["echo", "ran"]).finish()
    assert (code, out) == (2, "")
    assert says in errors
    assert not (directory / "control.sock").exists()


def test_without_the_node_distribution_it_says_how_to_get_it(environment, tmp_path):
    program = (
        "import sys, importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pillion_node' else found(name, *a)\n"
        "sys.argv = ['pillion', 'exec', '--share', '0.5', '--', 'true']\n"
        "from pillion.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'pillion[node]'" in done.stderr


def test_agents_that_are_killed_are_replaced_and_the_command_joins_the_next(execute, directory, eventually):
    command = execute("--share", "0.5", script=WORK)
    command.hear()

    def present_at_another(pid):
        try:
            found = Client(directory).ask(op="status")["status"]
        except OSError:
            return None
        present = [p["pid"] for t in found["gpus"][0]["tenants"] for p in t["processes"] if p["present"]]
        return (found["pid"], present) if found["pid"] != pid and present else None

    agent, processes = eventually(lambda: present_at_another(0))
    for _ in range(3):
        os.kill(agent, signal.SIGKILL)
        agent, present = eventually(lambda killed=agent: present_at_another(killed))
        assert present == processes
    command.tell()
    assert command.finish()[0] == 0


def test_a_limit_holds_on_an_otherwise_idle_gpu(execute, machine, eventually):
    command = execute("--share", "0.2", "--limit", "0.4", script=WORK)
    assert command.hear() == "first"

    def used_and_now():
        with emulator.Machine.open(machine) as opened:
            device = opened.snapshot()
        return device.busy_ns, device.clock_ns

    used_before, began = used_and_now()
    eventually(lambda: used_and_now()[1] - began > 3_000_000_000)
    used, now = used_and_now()
    assert (used - used_before) / (now - began) == pytest.approx(0.4, abs=0.06)
    command.tell()
    assert command.finish()[0] == 0
