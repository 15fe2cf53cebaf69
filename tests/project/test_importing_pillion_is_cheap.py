"""`import pillion` works in a step's image with nothing else installed."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pillion

PACKAGE = Path(pillion.__file__).parent.parent

CODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from pillion import PolicyError, defaults, gpu_share, priority
@gpu_share(0.5)
@priority("low")
def step(): return 42
with defaults(priority="low"): pass
assert step() == 42
print(json.dumps({name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before}))
"""


def test_it_loads_the_standard_library_only():
    # -I -S: no site-packages, no PYTHONPATH, no user site.
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CODE, str(PACKAGE)], capture_output=True, text=True, check=True
    )
    loaded = json.loads(run.stdout)
    foreign = {name for name in loaded if name.partition(".")[0] not in {*sys.stdlib_module_names, "pillion"}}
    assert foreign == set()
    assert "dataclasses" not in loaded, "importing dataclasses doubles the time that `import pillion` takes"
    stdlib = Path(sysconfig.get_paths()["stdlib"]).resolve()
    outside = {
        name: file
        for name, file in loaded.items()
        if file and not Path(file).resolve().is_relative_to(stdlib) and not Path(file).is_relative_to(PACKAGE)
    }
    assert outside == {}
