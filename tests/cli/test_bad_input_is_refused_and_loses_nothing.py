"""Whatever file it is given, the command says what is wrong and where, exits 1, and writes nothing."""

import resource
from pathlib import Path

import pytest

HEAD = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n  entrypoint: a\n  templates:\n"


def template(annotations):
    return HEAD + (
        "    - name: a\n      metadata:\n        labels: {pillion.dev/managed: 'true'}\n"
        f"        annotations: {annotations}\n      container: {{image: busybox}}\n"
    )


def bomb():
    levels = [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]" for i in range(12)]
    return "a: &a [lol, lol]\n" + "\n".join(levels) + "\n"


FILES = {
    "empty": (b"", "empty-file"),
    "comments only": (b"# nothing\n---\n# here\n", "empty-file"),
    "binary": (b"\x7fELF\x00\x01\x02", "not-text"),
    "latin-1": ("kind: caf\u00e9".encode("latin-1"), "not-text"),
    "control character": (b"a: \x01", "yaml-syntax"),
    "tabs": (b"kind: Workflow\nspec:\n\tentrypoint: a\n", "yaml-syntax"),
    "unclosed": (b"kind: [Workflow\n", "yaml-syntax"),
    "broken JSON": (b'{"kind": "Workflow",', "yaml-syntax"),
    "a list": (b"- kind: Workflow\n", "not-a-mapping"),
    "a word": (b"Workflow\n", "not-a-mapping"),
    "bomb": (bomb().encode(), "yaml-bomb"),
    "inside itself": (b"kind: Workflow\nspec: &s\n  templates: [*s]\n", "yaml-bomb"),
    "deep": (b"a: " + b"[" * 5000 + b"]" * 5000, "yaml-syntax"),
    "unquoted number": (template("{pillion.dev/share: 0.5}").encode(), "not-a-string"),
    "boolean": (template("{pillion.dev/share: true}").encode(), "not-a-string"),
    "zero": (template("{pillion.dev/share: '0'}").encode(), "share-value"),
    "negative": (template("{pillion.dev/share: '-1'}").encode(), "share-value"),
    "huge": (template("{pillion.dev/share: '1e9'}").encode(), "share-value"),
    "not a number": (template("{pillion.dev/share: 'NaN'}").encode(), "share-value"),
    "comma": (template("{pillion.dev/share: '0,5'}").encode(), "share-value"),
    "half": (template("{pillion.dev/share: '½'}").encode(), "share-value"),
    "very long": (template(f"{{pillion.dev/share: '{'1' * 100_000}'}}").encode(), "share-value"),
    "unknown key": (template("{pillion.dev/shares: '0.5'}").encode(), "unknown-key"),
    "low without memory": (template("{pillion.dev/priority: low}").encode(), "missing-memory"),
}


@pytest.mark.parametrize("command", ["compile", "check"])
@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_an_error_with_its_place(pillion, tmp_path, command, name):
    content, code = FILES[name]
    (tmp_path / "bad.yaml").write_bytes(content)
    (tmp_path / "out.yaml").write_text("old")
    run = pillion(command, "bad.yaml", *(["-o", "out.yaml"] if command == "compile" else []))
    assert run.code == 1
    said = run.err if command == "compile" else run.out
    assert f"error[{code}]: " in said
    assert all(line.startswith("bad.yaml:") for line in said.splitlines() if "error[" in line)
    assert max(map(len, said.splitlines())) < 1000
    assert (tmp_path / "out.yaml").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.yaml", "out.yaml"]


@pytest.mark.parametrize("command", ["compile", "check"])
def test_a_file_of_100_megabytes_is_refused_at_once(pillion, tmp_path, command):
    with (tmp_path / "big.yaml").open("wb") as file:
        file.truncate(100 << 20)
    run = pillion(command, "big.yaml")
    assert run.code == 1
    assert "big.yaml:1:1: error[file-too-large]" in run.err + run.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile"],
        ["check"],
        ["compile", "missing.yaml"],
        ["check", "missing.yaml"],
        ["compile", "."],
        ["check", "."],
        ["compile", "workflow.yaml", "--pipeline", "p"],
        ["compile", "workflow.yaml", "--json"],
        ["compile", "workflow.yaml", "--from", "slurm"],
        ["compile", "workflow.yaml", "--set", "train"],
        ["compile", "workflow.yaml", "--set", "train: share"],
        ["compile", "workflow.yaml", "--set", "train: speed=3"],
        ["compile", "workflow.yaml", "--set", "train: share=2"],
        ["compile", "workflow.yaml", "--set", "tr(ain: share=0.5"],
        ["check", "workflow.yaml", "--format", "xml"],
        ["frobnicate"],
    ],
)
def test_a_misused_command_exits_2_and_says_how_it_is_used(pillion, workflow, tmp_path, arguments):
    if arguments[-1] == ".":
        workflow.unlink()
    run = pillion(*arguments)
    assert run.code == 2
    assert run.err.strip()
    assert run.out == ""


def test_setting_a_step_that_does_not_exist_names_those_that_do(pillion, workflow):
    run = pillion("compile", "workflow.yaml", "--set", "tarin: share=0.5")
    assert run.code == 1
    assert "train" in run.err
    assert run.out == ""


def test_a_full_disk_leaves_the_old_output_as_it_was(pillion, workflow, tmp_path):
    out = tmp_path / "out.yaml"
    out.write_text("old")
    run = pillion(
        "compile", "workflow.yaml", "--set", "train: share=0.5", "-o", "out.yaml",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )  # fmt: skip
    assert run.code == 2
    assert "out.yaml" in run.err or "File too large" in run.err
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.yaml", "workflow.yaml"]


def test_an_output_that_is_a_link_stays_one_and_keeps_its_mode(pillion, workflow, tmp_path):
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert pillion("compile", "workflow.yaml", "-o", "link.yaml").code == 0
    assert link.is_symlink()
    assert real.read_text() == workflow.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_an_output_may_be_a_device(pillion, workflow):
    assert pillion("compile", "workflow.yaml", "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


PROGRAMS = {
    "syntax": ("def f(:\n", "bad.py:1:7: error[program-failed]: SyntaxError"),
    "raises": ("x = 1\ny = x / 0\n", "bad.py:2:1: error[program-failed]: ZeroDivisionError: division by zero"),
    "exits": ("import sys\nsys.exit(3)\n", "bad.py:2:1: error[program-failed]: SystemExit: 3"),
    "missing module": ("import no_such_module\n", "bad.py:1:1: error[program-failed]: ModuleNotFoundError"),
    "nothing in it": ("x = 1\n", "bad.py:1:1: error[no-pipeline]: the file defines no pipeline"),
    "bad share": (
        "from pillion import gpu_share\n\ngpu_share(1.5)\n",
        'bad.py:3:1: error[share-value]: share in gpu_share(1.5) is "1.5"',
    ),
}


@pytest.mark.parametrize("command", ["compile", "check"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_fails_is_told_the_line_of_its_own_file(pillion, tmp_path, command, name):
    text, message = PROGRAMS[name]
    (tmp_path / "bad.py").write_text(text)
    run = pillion(command, "bad.py")
    assert run.code == 1
    assert message in run.err + run.out
