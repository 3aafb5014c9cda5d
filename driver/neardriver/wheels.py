"""build/wheels: a Python with the wheels that only rows of tests/programs need, if possible."""

import shutil
import subprocess

from neardriver import groups, locks, paths
from neardriver.messages import say
from neardriver.progress import Step
from neardriver.seconds import SECONDS

_WHEELS = "numpy pyarrow"


def want() -> None:
    folder = paths.BUILD / "wheels"
    marker = folder / "wheels"
    with locks.hold(locks.PACKAGES):
        if marker.exists() and marker.read_text(encoding="utf-8").strip() == _WHEELS:
            return
        log = paths.log("wheels")
        with SECONDS.download("pip"), Step(f"installing {_WHEELS} into build/wheels").start():
            with log.open("wb") as file:
                made = subprocess.run([paths.PYTHON, "-m", "venv", "--clear", folder], stdout=file,
                                      stderr=file, check=False)
            names = ("--only-binary", ":all:", *_WHEELS.split())
            if made.returncode == 0 and groups.pip(folder / "bin" / "python3", log, *names):
                marker.write_text(f"{_WHEELS}\n", encoding="utf-8")
                return
        shutil.rmtree(folder, ignore_errors=True)
        say(f"going on without {_WHEELS} (see build/logs/wheels.log)")
