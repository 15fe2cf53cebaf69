"""How long compiling a 5 MB file takes, and how much memory: many documents, one document, with and without a `--set`.

Every case is a process of its own, so that its peak counts; the time is that of compiling alone, without the
interpreter's start and the imports. Medians. Goal: less than 3 s and less than 300 MB for a file of many documents.

Run: python bench/compile_yaml.py
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPETITIONS = 5
MEGABYTES = 5

HEAD = """\
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata:
  name: pipeline-{0}
spec:
  entrypoint: step-{0}-0
  templates:
"""
TEMPLATE = """\
    - name: step-{0}-{1}
      inputs: {{parameters: [{{name: rate}}]}}  # how fast to learn
{2}      container:
        image: registry.example.com/team/trainer:1.2.3
        command: [python, train.py]
        args: ["--rate", "{{{{inputs.parameters.rate}}}}"]
"""
ANNOTATED = """\
      metadata:
        annotations:
          pillion.dev/memory: 8Gi
          pillion.dev/on-preempt: evict
          pillion.dev/priority: low
"""
# What is measured runs in a fresh interpreter and prints its time and its peak, in kilobytes on Linux.
MEASURE = """
import json, resource, sys, time
from pathlib import Path
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.document import read_text
from pillion.authoring.manifests.settings import parse_setting

text = read_text(Path(sys.argv[1]))
settings = [parse_setting(each) for each in sys.argv[2:]]
began = time.perf_counter()
compiled = compile_text(text, sys.argv[1], settings)
took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([took, peak / 1024, len(compiled.policies)]))
"""


def manifest(documents: int, *, annotated_every: int) -> str:
    """Return a file of some 5 MB with as many documents; every so many of its templates have a policy."""
    size = len(TEMPLATE.format(100, 10, ""))
    per_document = MEGABYTES * 1_000_000 // size // documents
    parts = []
    for document in range(documents):
        numbers = range(document * per_document, (document + 1) * per_document)
        policies = ["" if annotated_every == 0 or number % annotated_every else ANNOTATED for number in numbers]
        parts.append(HEAD.format(document) + "".join(
            TEMPLATE.format(document, number, policy) for number, policy in enumerate(policies)))  # fmt: skip
    return "---\n".join(parts)


CASES = (
    ("400 documents, no policy", 400, 0, ()),
    ("400 documents, 1 % annotated", 400, 100, ()),
    ("4,000 documents, 1 % annotated", 4000, 100, ()),
    ("400 documents, --set on 1 % of the steps", 400, 0, ("step-.*-7: share=0.5,memory=8Gi",)),
    ("400 documents, --set on all steps", 400, 0, ("step-.*: share=0.5,memory=8Gi",)),
    ("1 document, --set on all steps", 1, 0, ("step-.*: share=0.5,memory=8Gi",)),
)


def main() -> None:
    """Print a line per case."""
    with tempfile.TemporaryDirectory() as folder:
        for name, documents, every, settings in CASES:
            file = Path(folder) / "manifest.yaml"
            text = manifest(documents, annotated_every=every)
            file.write_text(text)
            runs = [
                json.loads(subprocess.check_output([sys.executable, "-c", MEASURE, str(file), *settings]))
                for _ in range(REPETITIONS)
            ]
            seconds, megabytes, policies = (statistics.median(column) for column in zip(*runs, strict=True))
            print(
                f"{name}: {len(text) / 1e6:.1f} MB with {text.count('- name: step-')} templates, {policies:.0f} with a "
                f"policy: {seconds:.2f} s, peak {megabytes:.0f} MB (median of {REPETITIONS}; goal 3 s, 300 MB)"
            )


if __name__ == "__main__":
    main()
