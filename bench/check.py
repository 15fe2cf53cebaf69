"""How long `pillion check` takes on a workflow of 1,000 templates, and how that grows.

Goal: less than 1 s for 1,000 templates, in a running process; twice the templates take about twice as long.
Run: python bench/check.py
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pillion.check import check_text

REPETITIONS = 7
TEMPLATES = 1_000

HEAD = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: large-}
spec:
  entrypoint: main
  templates:
    - name: main
      dag:
        tasks:
"""
TASK = """\
          - {{name: step-{0}, template: step-{0}, arguments: {{parameters: [{{name: share, value: "0.5"}}]}}}}
"""
TEMPLATE = """\
    - name: step-{0}
      inputs: {{parameters: [{{name: share}}]}}
      metadata:
        labels: {{pillion.dev/managed: "true"}}
        annotations:
          pillion.dev/memory: 8Gi
          pillion.dev/on-preempt: evict
          pillion.dev/priority: low
          pillion.dev/share: "{{{{inputs.parameters.share}}}}"
      priorityClassName: pillion-low
      retryStrategy: {{limit: 5, retryPolicy: Always}}
      {1}:
        image: python:3.11
        command: [python, -c]
        args: ["print('training')"]
        env: [{{name: EPOCHS, value: "10"}}]
        resources: {{limits: {{memory: 1Gi, cpu: 500m}}}}
"""


def workflow(templates: int, *, container: str = "container") -> str:
    """Return a workflow whose templates all have a policy; a misspelt `container` gives one finding each."""
    numbers = range(templates)
    return HEAD + "".join(map(TASK.format, numbers)) + "".join(TEMPLATE.format(n, container) for n in numbers)


def check_ms(text: str, findings: int) -> float:
    """Return how long one check takes, in milliseconds."""
    began = time.perf_counter()
    found = check_text(text, "workflow.yaml")
    elapsed = (time.perf_counter() - began) * 1e3
    if len(found) != findings:
        sys.exit(f"{len(found)} findings, not {findings}: what is measured here is not the check")
    return elapsed


def process_ms(path: Path) -> float:
    """Return how long the command takes from its start to its end, in milliseconds."""
    began = time.perf_counter()
    subprocess.run([Path(sys.executable).with_name("pillion"), "check", path], check=True, capture_output=True)
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    """Print the medians."""
    once, twice = workflow(TEMPLATES), workflow(2 * TEMPLATES)
    misspelt = workflow(TEMPLATES, container="contaner")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workflow.yaml"
        path.write_text(once)
        rounds = [
            (check_ms(once, 0), check_ms(twice, 0), check_ms(misspelt, TEMPLATES), process_ms(path))
            for _ in range(REPETITIONS)
        ]
    clean, double, broken, process = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{TEMPLATES} templates, {len(once) / 1e6:.1f} MB: {clean:.0f} ms (goal 1000 ms)")
    print(f"with {TEMPLATES} mistakes: {broken:.0f} ms")
    print(f"{2 * TEMPLATES} templates: {double / clean:.2f} times as long")
    print(f"the whole command, from a cold start: {process:.0f} ms")
    print(f"(medians of {REPETITIONS} rounds)")


if __name__ == "__main__":
    main()
