"""What `make demo` runs: compiles the samples of all three languages, checks them, shows what ended up on which step.

Everything goes through the real `pillion` command, as an author would call it; the specs are left in build/demo.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("build/demo")
PILLION = Path(sys.executable).with_name("pillion")
SAMPLES = (
    ("samples/kfp_training.py", "Kubeflow Pipelines", ()),
    ("samples/hera_nightly.py", "Hera, Argo Workflows", ()),
    ("samples/argo_training.yaml", "YAML, Argo Workflows", ()),
    ("samples/kubernetes_job.yaml", "YAML, Kubernetes Job", ()),
    ("samples/from_kai.yaml", "YAML, written for KAI", ("--from", "kai")),
    ("samples/every_argument.py", "Kubeflow Pipelines", ()),
)
TERMS = ("priority", "share", "memory")
MISTAKE = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: mistakes-}
spec:
  entrypoint: train
  templates:
    - name: train
      metadata:
        annotations:
          pillion.dev/share: "1.5"
          pillion.dev/priorty: low
        labels: {pillion.dev/managed: "true"}
      contaner:
        image: python:3.11-slim
"""


def pillion(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command from the project's root."""
    return subprocess.run([PILLION, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def _excerpts(console: Console) -> None:
    """Show where in the specs the policies stand: KFP's platform document, an Argo template."""
    _, platform = yaml.safe_load_all((ROOT / OUT / "kfp_training.yaml").read_text())
    nightly = next(yaml.safe_load_all((ROOT / OUT / "hera_nightly.yaml").read_text()))
    template = nightly["spec"]["workflowSpec"]["templates"][0]
    shown = {key: template[key] for key in ("name", "metadata") if key in template}
    panels = (
        (OUT / "kfp_training.yaml", "second document", platform),
        (OUT / "hera_nightly.yaml", "spec.workflowSpec", {"templates": [shown]}),
    )
    for file, place, data in panels:
        console.print(f"[bold]{file}[/], {place}:", highlight=False)
        console.print(Syntax(yaml.safe_dump(data, sort_keys=False), "yaml", background_color="default"))


def main() -> int:
    """Compile and check every sample; return 1 if one is not as it should be."""
    console = Console(width=max(110, Console().width) if not sys.stdout.isatty() else None)
    (ROOT / OUT).mkdir(parents=True, exist_ok=True)
    table = Table(title="What the policies put where", title_justify="left")
    for heading in ("sample", "step", *TERMS, "more"):
        table.add_column(heading, overflow="fold")
    failed = 0
    specs = []
    for sample, language, options in SAMPLES:
        spec = str(OUT / f"{Path(sample).stem}.yaml")
        specs.append(spec)
        run = pillion("compile", sample, "-o", spec, "--json", *options)
        console.print(
            f"[bold]pillion compile {' '.join((sample, *options))} -o {spec}[/]  ({language})", highlight=False
        )
        if run.returncode:
            console.print(run.stderr, markup=False)
            failed = 1
            continue
        for step in json.loads(run.stdout)["steps"]:
            terms = step["policy"]
            more = ", ".join(f"{term} {value}" for term, value in terms.items() if term not in TERMS)
            table.add_row(sample.removeprefix("samples/"), step["name"], *(terms.get(term, "") for term in TERMS), more)
        table.add_section()
    console.print(table)
    _excerpts(console)
    console.print(f"[bold]pillion check {OUT}[/]", highlight=False)
    checked = pillion("check", str(OUT))
    console.print(checked.stdout + checked.stderr, markup=False, highlight=False)
    mistake = OUT.parent / "mistake.yaml"
    (ROOT / mistake).write_text(MISTAKE)
    console.print(f"And this is what mistakes look like:\n[bold]pillion check {mistake}[/]", highlight=False)
    shown = pillion("check", str(mistake))
    console.print(shown.stdout + shown.stderr, markup=False, highlight=False)
    return failed or checked.returncode or int(shown.returncode != 1)


if __name__ == "__main__":
    sys.exit(main())
