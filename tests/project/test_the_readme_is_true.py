"""Every example of the README, run as it is written: its files are made, its commands typed, its output compared."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"^`(?P<name>[\w.]+)`:\n\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_each_example_prints_what_the_readme_shows(tmp_path):
    readme = (ROOT / "README.md").read_text()
    for file in FILE.finditer(readme):
        (tmp_path / file["name"]).write_text(file["text"])
    consoles = [match["text"] for match in CONSOLE.finditer(readme)]
    assert len(consoles) == 5
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for console in consoles:
        command, _, shown = console.removeprefix("$ ").partition("\n")
        run = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert run.stdout == shown


def test_every_link_of_the_documents_leads_somewhere():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "samples" / "README.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
