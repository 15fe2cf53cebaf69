"""The compiler and the checker agree: what one writes, the other has nothing to say against."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting
from pillion.check import check_text

ROOT = Path(__file__).resolve().parents[2]
POLICY = ".*: share=0.25,memory=8Gi,on-preempt=suspend,retries=3"
# The author's own retries stay, and the checker says what they lack.
AUTHORS_OWN = {"retry-policy", "short-time-for-retries"}
# Files that a policy cannot be added to: nothing in them runs, or it owns whole GPUs, or the container is not clear.
REFUSED = {"no-such-step", "whole-gpu", "which-container"}


@pytest.mark.parametrize("folder", ["argo-examples", "kfp", "kfp-argo"])
def test_public_manifests_with_a_policy(corpus, folder, capsys):
    counts = Counter()
    for path in sorted((corpus / folder).rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        own = Counter(finding.problem.code for finding in check_text(text, path.name))
        try:
            compiled = compile_text(text, path.name, [parse_setting(POLICY)])
        except ManifestError as refused:
            assert own or {finding.problem.code for finding in refused.findings} <= REFUSED, str(refused)
            counts["refused"] += 1
            continue
        found = check_text(compiled.text, path.name)
        added = Counter(finding.problem.code for finding in found) - own
        assert set(added) <= AUTHORS_OWN, "\n".join(map(str, found))
        counts["passed"] += 1
    with capsys.disabled():
        print(f"\n  {folder}: {counts['passed']} pass, {counts['refused']} cannot have one")
    assert counts["passed"] > 2 * counts["refused"]


@pytest.mark.parametrize("sample", sorted(path.name for path in (ROOT / "samples").glob("*.py")))
def test_samples_in_python(sample):
    done = subprocess.run(
        [Path(sys.executable).with_name("pillion"), "check", f"samples/{sample}"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "1 file checked: no mistakes"), done.stdout + done.stderr
