"""`python -m pillion_node.emulator`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pillion_node
from pillion_node import emulator
from pillion_node.emulator.__main__ import main


def test_create_show_remove(tmp_path, capsys):
    path = tmp_path / "gpu"
    assert (
        main(["create", "--path", str(path), "--gpus", "2", "--memory", "24Gi", "--slice", "1ms", "--switch", "20us"])
        == 0
    )
    assert f"PILLION_EMULATED_GPU={path}" in capsys.readouterr().out
    assert main(["show", "--path", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(d["memory_bytes"], d["slice_ns"], d["switch_ns"], d["contexts"]) for d in shown] == [
        (24 << 30, 1_000_000, 20_000, [])
    ] * 2
    assert main(["show", "--path", str(path)]) == 0
    assert re.match(
        r"GPU 0  Pillion Emulated GPU  GPU-[0-9a-f-]{36}\n  memory 0 of 24576 MiB   busy 0.0%", capsys.readouterr().out
    )
    assert main(["remove", "--path", str(path)]) == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "--gpus", "17"], "gpus=17 is not in 1 ... 16"),
        (["create", "--gpus", "0"], "gpus=0 is not in 1 ... 16"),
        (["create", "--queue-depth", "5000"], "queue_depth=5000 is not in 1 ... 2048"),
        (["create", "--name", "x" * 96], "name must have 1 to 95 bytes"),
        (["show"], "no emulated GPU (No such file or directory)"),
        (["remove"], "no emulated GPU (No such file or directory)"),
    ],
)
def test_mistakes_are_told_and_nothing_is_made(tmp_path, capsys, arguments, said):
    assert main([*arguments, "--path", str(tmp_path / "gpu")]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_machine_is_not_overwritten(tmp_path, capsys):
    path = tmp_path / "gpu"
    emulator.create(path)
    before = emulator.Machine.open(path).snapshot().uuid
    assert main(["create", "--path", str(path)]) == 1
    assert "File exists; remove it first, or use another path" in capsys.readouterr().err
    assert emulator.Machine.open(path).snapshot().uuid == before


def test_a_file_that_is_something_else_is_left_alone(tmp_path):
    path = tmp_path / "gpu"
    path.write_text("precious")
    with pytest.raises(emulator.EmulatorError, match="no emulated GPU"):
        emulator.remove(path)
    assert path.read_text() == "precious"


def test_importing_the_package_loads_no_library():
    script = "import pillion_node, sys; sys.exit('ctypes' in sys.modules)"
    root = str(Path(pillion_node.__file__).parents[1])
    assert subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": root}, check=False).returncode == 0
