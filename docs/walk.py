"""Count the modules whose functions run between a command and its result: `python docs/walk.py`.

Every Python process of the command, Ray's workers included, notes when it first enters a function of fedbench. What
runs only because a module is imported, such as a decorator that registers a method, does not count, and neither do the
pages that a thread writes while trials run. Nor do the methods of the actor `Home`, which Ray calls in threads of its
own. The numbers are those of docs/development.md.
"""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORED = "fedbench.trackers.run RemoteStore.accept"  # sends the files of an entry to be stored
WALKS = {  # what is walked to: the command, and the function that ends the walk (empty: the end of the command)
    "stored entry": (["study", "smoke", "--scale", "tiny"], STORED),
    "page": (["report", "smoke", "--scale", "tiny"], ""),
}

HOOK = '''
import os, sys, threading, time
OPTIMIZED = 1  # a function's code has this flag; that of a module or a class has not
seen = set()

def beside_the_walk(frame):
    """Whether a function was called because a module is imported, or to write a page while trials run."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module == "fedbench.jobs.live" or (frame.f_code.co_name == "<module>" and module.startswith("fedbench.")):
            return True
        frame = frame.f_back
    return False

def note(frame, event, argument):
    code = frame.f_code
    if event != "call" or code in seen or not code.co_flags & OPTIMIZED:
        return
    module = str(frame.f_globals.get("__name__"))
    if not module.startswith("fedbench.") or code.co_name.startswith("<"):
        return
    if not beside_the_walk(frame):
        seen.add(code)
        with open(os.path.join(os.environ["FEDBENCH_WALK"], str(os.getpid())), "a") as file:
            file.write(f"{time.time()} {module} {code.co_qualname}\\n")

sys.setprofile(note)
threading.setprofile(note)
'''


def walk(command: Sequence[str], last: str, out: Path) -> dict[str, set[str]]:
    """Run a command of fedbench, and return the functions that its processes entered, by module.

    last: leave out the functions that were first entered after this one.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(HOOK)
        notes = Path(folder) / "notes"
        notes.mkdir()
        path = os.pathsep.join(filter(None, (folder, str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "FEDBENCH_WALK": str(notes)}
        line = [sys.executable, "-m", "fedbench", *command, "--out", str(out)]
        subprocess.run(line, env=environment, check=True, stdout=subprocess.DEVNULL)
        first: dict[str, float] = {}
        for file in notes.iterdir():
            for when, function in (line.split(" ", 1) for line in file.read_text().splitlines()):
                first[function] = min(float(when), first.get(function, math.inf))
    entered: dict[str, set[str]] = {}
    for function in (function for function, when in first.items() if when <= first.get(last, math.inf)):
        entered.setdefault(function.partition(" ")[0], set()).add(function)
    return entered


def describe(entered: Mapping[str, set[str]]) -> str:
    """Return a line for every package: its modules, each with the number of its functions that ran."""
    packages: dict[str, list[str]] = {}
    for module, functions in sorted(entered.items()):
        _, package, *rest = module.split(".")
        packages.setdefault(package, []).append(f"{'.'.join(rest) or package} {len(functions)}")
    lines = [f"  {package} ({len(modules)}): {', '.join(modules)}" for package, modules in packages.items()]
    total = sum(map(len, entered.values()))
    return "\n".join([f"{len(entered)} modules in {len(packages)} packages, {total} functions", *lines])


def main() -> None:
    """Print what a study passes through until its first entry is stored, and a report until its page is written."""
    with tempfile.TemporaryDirectory() as folder:
        for target, (command, last) in WALKS.items():
            print(f"{target}: {describe(walk(command, last, Path(folder) / 'out'))}")


if __name__ == "__main__":
    main()
