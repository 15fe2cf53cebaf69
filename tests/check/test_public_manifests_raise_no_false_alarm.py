"""Hundreds of manifests that work in production raise no finding, but for those that are right."""

from collections import Counter

import pytest

# file: (what is found, why it is right)
TRUE_ALARMS = {
    "argo-examples/k8s-patch-json-workflow.yaml": (
        [(13, 3, "duplicate-key", "error")],
        "metadata.annotations stands there twice, and the first of the two is lost",
    ),
    "hami/dynamic_mig_example.yaml": ([(18, 11, "foreign-words", "warning")], "nvidia.com/gpumem is HAMi's"),
    "hami/use_memory_fraction.yaml": ([(13, 11, "foreign-words", "warning")], "nvidia.com/gpucores is HAMi's"),
    "hami/vllm_cross_vgpu.yaml": ([(61, 15, "foreign-words", "warning")], "nvidia.com/gpucores is HAMi's"),
    "kai/gpu-sharing-non-default-container.yaml": (
        [(11, 5, "foreign-words", "warning")],
        "gpu-fraction is KAI Scheduler's",
    ),
}
FOLDERS = {"argo-examples": 140, "kfp": 100, "kfp-argo": 80, "hami": 8, "kai": 1}


@pytest.mark.parametrize(("folder", "at_least"), FOLDERS.items())
def test_public_manifests(corpus, folder, at_least, found_in, capsys):
    files = sorted(path for path in (corpus / folder).rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
    raised = {str(path.relative_to(corpus)): found_in(path) for path in files}
    with capsys.disabled():
        counts = Counter(code for found in raised.values() for _, _, code, _ in found)
        told = ", ".join(f"{number} {code}" for code, number in counts.items()) or "nothing found"
        print(f"\n  {folder}: {len(files)} files, {told}")
    assert len(files) >= at_least
    expected = {path: found for path, (found, _) in TRUE_ALARMS.items() if path.startswith(f"{folder}/")}
    assert {path: found for path, found in raised.items() if found} == expected
