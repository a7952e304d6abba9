import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_an_installed_wheel_finds_its_studies_and_spaces_from_another_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("fedbench-*.whl")
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".xz")], "published/ is the checkout's"
        assert "fedbench/render/pages/templates/study.html" in archive.namelist()
        archive.extractall(site)
    # -P and the path: the wheel's files come first, the checkout and the current folder do not count
    for command, another in (("study", "smoke"), ("search", "fair")):
        code = f"""
import sys
sys.path.insert(0, {str(site)!r})
import fedbench
from fedbench.cli.main import run_command
assert fedbench.__file__.startswith(sys.path[0])
sys.exit(run_command({command!r}, ["--list", "--json"]))
"""
        done = subprocess.run([sys.executable, "-P", "-c", code], cwd=elsewhere, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert '"fixed_gamma"' in done.stdout
        assert f'"{another}"' in done.stdout
