"""Forks, exec chains, spawned workers, shells, plug-ins: each is held like the process it came from."""

import ctypes
import os
import platform
import shutil

import pytest

from pillion_node.pages import State

PLUGIN = """
plugin = ctypes.CDLL(sys.argv[1], mode=getattr(os, "RTLD_" + sys.argv[2]) | os.RTLD_NOW)
assert plugin.plugin_prepare() == 0
say("ready"); heard()
assert plugin.plugin_launch() == 0
say("went")
"""


@pytest.mark.parametrize("how", ["LOCAL", "GLOBAL", "DEEPBIND"])
@pytest.mark.parametrize("flags", [(), ("-DBY_LOOKUP",)], ids=["linked", "lookup"])
def test_a_library_that_is_loaded_later(request, how, flags, run, built, agent_at, driver_library, on_gpu, eventually):
    if how == "DEEPBIND":
        request.getfixturevalue("no_sanitizer")
    agent = agent_at()
    plugin = built("plugin.c", *flags, *([] if flags else [str(driver_library)]), shared=True)
    program = run(PLUGIN, plugin, how, agent=agent)
    assert program.hear() == "ready"
    member = agent.member()
    member.grant(State.STOP)
    program.tell(0)
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    assert on_gpu(program.process.pid) == 0
    member.grant(State.RUN)
    assert program.finish() == ["went"]


def test_a_library_that_is_found_by_the_search_path_with_deepbind(
    no_sanitizer, run, built, agent_at, driver_library, eventually
):
    agent = agent_at()
    plugin = built("plugin.c", str(driver_library), shared=True)
    program = run(built("loader.c"), plugin.name, agent=agent, extra={
        "LD_LIBRARY_PATH": f"{plugin.parent}:{driver_library.parent}"})  # fmt: skip
    assert program.hear() == "ready"
    member = agent.member()
    member.grant(State.STOP)
    program.tell(0)
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    member.grant(State.RUN)
    assert program.finish() == ["went"]


def test_lookups_of_other_names_mean_what_they_mean_without_it(run, built):
    assert run(built("lookups.c", "-rdynamic")).finish() == [[1] * 10]


def one_more_member(agent, member_number, program, eventually):
    """The `member_number`th process is held, and goes on when it may."""
    member = agent.member(member_number)
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    member.grant(State.RUN)
    return member


def test_a_forked_child_joins_by_itself(run, agent_at, eventually):
    agent = agent_at(state=State.STOP)
    program = run("""
child = os.fork()
if child == 0:
    context(); launch(kernel(b"k_10us")); ok(d.cuCtxSynchronize()); os._exit(0)
assert os.waitpid(child, 0)[1] == 0
context(); launch(kernel(b"k_10us")); ok(d.cuCtxSynchronize()); say("both")
""", agent=agent)  # fmt: skip
    child = one_more_member(agent, 0, program, eventually)
    parent = one_more_member(agent, 1, program, eventually)
    assert (child.pid == program.process.pid, parent.pid == program.process.pid) == (False, True)
    assert program.finish() == ["both"]


def test_a_child_forked_after_the_driver_started_leaves_its_parent_alone(run, agent_at, eventually):
    agent = agent_at(memory_quota_bytes=64 << 20)
    program = run("""
context(); keep = ok(d.cuMemAlloc(32 << 20)); f = kernel(b"k_10us")
child = os.fork()
if child == 0:
    d.cuMemFree(keep); d.cuInit(0); os._exit(0)
assert os.waitpid(child, 0)[1] == 0
launch(f); ok(d.cuCtxSynchronize()); say(ok(d.cuMemGetInfo())[0]); heard()
""", agent=agent)  # fmt: skip
    assert program.hear() == 32 << 20
    member = agent.member()
    assert agent.ledger.item("bytes", member.slot) == 32 << 20
    assert not member.gone.is_set(), "the child has let go of nothing that is its parent's"
    program.tell(0)
    program.finish()


def test_when_the_parent_ends_its_connection_ends_although_a_child_lives(run, agent_at):
    agent = agent_at()
    program = run("""
context(); launch(kernel(b"k_10us")); ok(d.cuCtxSynchronize())
child = os.fork()
if child == 0:
    os.close(1); os.close(2); sys.stdin.readline(); os._exit(0)
say(child)
os._exit(0)
""", agent=agent)  # fmt: skip
    program.hear()
    assert agent.member().gone.wait(20)
    program.tell(0)
    program.process.wait()


def test_exec_chains_and_shells(run, agent_at, eventually):
    agent = agent_at(state=State.STOP)
    program = run("""
if len(sys.argv) > 1 and int(sys.argv[1]):
    os.execv("/bin/sh", ["sh", "-c", 'exec "$0" "$@"', sys.executable, "-c", open("/proc/self/cmdline").read().split(chr(0))[2], str(int(sys.argv[1]) - 1)])
context(); launch(kernel(b"k_10us")); ok(d.cuCtxSynchronize()); say("end of the chain")
""", 3, agent=agent)  # fmt: skip
    member = one_more_member(agent, 0, program, eventually)
    assert member.pid == program.process.pid
    assert program.finish() == ["end of the chain"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method, run, agent_at, eventually, tmp_path):
    agent = agent_at(state=State.STOP)
    (tmp_path / "worker.py").write_text("def work(prelude, n):\n    names = {}\n    exec(prelude, names)\n    names['context']()\n"
                                        "    names['launch'](names['kernel'](b'k_10us'), times=n)\n    return n\n")  # fmt: skip
    program = run(f"""
import multiprocessing as mp
sys.path.insert(0, {str(tmp_path)!r}); os.environ["PYTHONPATH"] = {str(tmp_path)!r} + ":" + os.environ["PYTHONPATH"]
import worker
prelude = open("/proc/self/cmdline").read().split(chr(0))[2].split("import multiprocessing")[0]
with mp.get_context({method!r}).Pool(2) as pool:
    say(pool.starmap(worker.work, [(prelude, 3), (prelude, 4)], chunksize=1))
""", agent=agent)  # fmt: skip
    first = agent.member(0)
    eventually(lambda: first.client["waiting"] == 1, "a launch that is held")
    agent.state = State.RUN
    first.grant(State.RUN)
    for late in agent.members[1:]:
        late.grant(State.RUN)
    assert program.finish() == [[3, 4]]


def test_an_emptied_environment_leaves_a_child_ungated(run, agent_at, machine, driver_library):
    """Documented: LD_PRELOAD is what brings the gate. In containers /etc/ld.so.preload does, which no variable removes."""
    agent = agent_at(state=State.STOP)
    program = run("""
import subprocess
keep = {name: os.environ[name] for name in os.environ if name.startswith("PILLION_") and name != "PILLION_SOCKET"}
keep |= {"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"], "PYTHONPATH": os.environ["PYTHONPATH"]}
code = open("/proc/self/cmdline").read().split(chr(0))[2].split("import subprocess")[0]
subprocess.run([sys.executable, "-c", code + "context(); launch(kernel(b'k_10us')); ok(d.cuCtxSynchronize())"], env=keep, check=True)
say("ungated")
""", agent=agent)  # fmt: skip
    assert program.finish() == ["ungated"]
    assert agent.members == []


def test_no_variable_that_is_set_later_leads_a_process_away(run, agent_at, eventually):
    agent = agent_at(state=State.STOP)
    program = run("""
os.environ["PILLION_SOCKET"] = "/nowhere"; os.environ["PILLION_DISABLE"] = "1"; del os.environ["LD_PRELOAD"]
context(); launch(kernel(b"k_10us")); ok(d.cuCtxSynchronize()); say(1)
""", agent=agent)  # fmt: skip
    one_more_member(agent, 0, program, eventually)
    assert program.finish() == [1]


def test_the_nodes_own_socket_comes_before_the_variable(
    no_sanitizer, compiling, agent_at, run, gate_library, tmp_path, monkeypatch, eventually
):
    agent = agent_at(state=State.STOP)
    pytest.importorskip("ziglang", reason="ziglang is not installed here")
    special = compiling.compile_gate(tmp_path / "libpillion-gate.so", flags=(f'-DPILLION_WELL_KNOWN="{agent.path}"',))
    program = run("context(); launch(kernel(b'k_10us')); ok(d.cuCtxSynchronize()); say(1)", extra={
        "LD_PRELOAD": str(special), "PILLION_SOCKET": "/nowhere"})  # fmt: skip
    one_more_member(agent, 0, program, eventually)
    assert program.finish() == [1]


def test_programs_that_never_use_a_gpu_are_as_they_were(run, agent_at):
    agent = agent_at()
    program = run(
        "import threading; say(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd')))", agent=agent
    )
    threads, descriptors = program.hear()
    assert threads == 1
    assert descriptors == ["0", "1", "2", "3"]
    program.finish()
    assert agent.members == []


@pytest.mark.skipif(shutil.which("sh") is None or platform.libc_ver()[0] != "glibc", reason="for glibc")
def test_loading_it_as_an_ordinary_library_interposes_nothing(no_sanitizer, gate_library):
    loaded = ctypes.CDLL(str(gate_library), mode=os.RTLD_LOCAL)
    process = ctypes.CDLL(None)
    assert ctypes.cast(process.dlsym, ctypes.c_void_p).value != ctypes.cast(loaded.dlsym, ctypes.c_void_p).value


@pytest.mark.parametrize("order", ["before", "after"])
def test_another_preloaded_library_that_passes_on_what_it_replaces(
    no_sanitizer, order, run, built, agent_at, gate_library, on_gpu, eventually
):
    agent = agent_at(state=State.STOP)
    other = built("interposer.c", shared=True)
    both = [other, gate_library] if order == "before" else [gate_library, other]
    program = run(
        built("routes.c"), "dlsym-of-libc", 2, agent=agent, extra={"LD_PRELOAD": ":".join(map(str, both))}
    )  # fmt: skip
    assert program.hear() == "ready"
    program.tell("go")
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    assert on_gpu(program.process.pid) == 0
    member.grant(State.RUN)
    assert program.finish() == [1, 2]
