"""Checks what `make dist` has built: the files of the wheel and the sdist, and an install of the wheel alone."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
IN_SDIST = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile")
LOOK = (
    "import ferryman; print(ferryman.__version__, *(name for name in ferryman.__all__ if not hasattr(ferryman, name)))"
)


def main(folder: Path) -> None:
    """Check the wheel and the sdist in `folder`; the first thing that is wrong ends the program."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    wheel, sdist = folder / f"ferryman-{version}-py3-none-any.whl", folder / f"ferryman-{version}.tar.gz"
    _expect({file.name for file in folder.iterdir()} == {wheel.name, sdist.name}, f"{folder} holds something else")
    _check_changelog(version)
    _check_files(wheel, sdist, version)
    _check_install(wheel, version)
    print(f"{wheel.name} and {sdist.name} are whole, and the wheel works by itself.")


def _check_changelog(version: str) -> None:
    tags = _said("git", "-C", str(ROOT), "tag", "--points-at", "HEAD").split()
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    if tags:
        _expect(f"v{version}" in tags, f"HEAD has the tag {tags[0]}, and this is version {version}")
        _expect(headings[0].startswith(f"## {version} "), f"CHANGELOG.md does not begin with version {version}")


def _check_files(wheel: Path, sdist: Path, version: str) -> None:
    files = [file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*") if file.is_file()]
    wanted = {file for file in files if "__pycache__" not in file}
    _expect({"ferryman/py.typed"} < wanted and any(file.endswith(".sql") for file in wanted), "src is not whole")
    info = f"ferryman-{version}.dist-info"
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    theirs = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    _expect(in_wheel == wanted | theirs, f"the wheel has other files: {sorted(in_wheel ^ (wanted | theirs))[:9]}")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    missing = {*IN_SDIST, *(f"src/{file}" for file in wanted)} - in_sdist
    _expect(not missing, f"the sdist lacks {sorted(missing)[:9]}")


def _check_install(wheel: Path, version: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        venv.create(place / "venv", with_pip=True)
        programs = place / "venv" / "bin"
        _said(str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel), folder=place)
        _expect(_said(str(programs / "python"), "-c", LOOK, folder=place) == version, "the wheel lacks public names")
        said = _said(str(programs / "ferryman"), "--version", folder=place)
        _expect(version in said, f"`ferryman --version` says {said!r}")
        _said(str(programs / "ferryman"), "new", folder=place)
        refused = _said(str(programs / "ferryman"), "worker", "tasks", "--task", "nosuch", folder=place, code=1)
        _expect("no task 'nosuch'" in refused, f"a worker cannot read the task that `ferryman new` wrote: {refused}")


def _said(*command: str, folder: Path | None = None, code: int = 0) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    _expect(ran.returncode == code, f"{' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")
    return (ran.stdout + ran.stderr).strip()


def _expect(is_so: bool, problem: str) -> None:
    if not is_so:
        sys.exit(f"release/check.py: {problem}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
