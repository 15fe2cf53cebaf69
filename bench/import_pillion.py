"""How long `import pillion` takes: fresh interpreters with and without it, alternating; the median difference.

Goal: at most 30 ms. Run: python bench/import_pillion.py
"""

import statistics
import subprocess
import sys
import time

REPETITIONS = 31


def start_ms(code: str) -> float:
    """Return how long a fresh interpreter takes to run `code`, in milliseconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    """Print the medians and their difference."""
    start_ms("import pillion")  # writes the byte code once
    pairs = [(start_ms("pass"), start_ms("import pillion")) for _ in range(REPETITIONS)]
    bare, loaded = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"interpreter {bare:.1f} ms, with pillion {loaded:.1f} ms: import pillion takes {loaded - bare:.1f} ms "
          f"(median of {REPETITIONS} pairs; goal 30 ms)")  # fmt: skip


if __name__ == "__main__":
    main()
