"""Every study that comes with fedbench, end to end on a real Ray, at its smallest."""

import re
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from fedbench.analysis.beside import noted
from fedbench.analysis.tables import fill_tables, layout, places
from fedbench.analysis.trials import stored_trials
from fedbench.data.sets.mnist5k import Embedded
from fedbench.jobs.study import SMOKE
from fedbench.render.pages.render import MOST_BYTES
from fedbench.specs.expand import ScaledStudy, expand, study_files
from fedbench.store.store import Store
from tests.commands import report as report_main
from tests.commands import study as main
from tests.conftest import small_cluster

Command = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.slow, pytest.mark.thorough]
NAMES = sorted(name for name in study_files() if name != SMOKE)


def tiny(name: str) -> ScaledStudy:
    return expand(name, "tiny", changes={}, only={}, seeds=None)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All studies at tiny scale, run by one command."""
    out = tmp_path_factory.mktemp("everything")
    with contextmanager(small_cluster)(2):
        assert main(["all", "--scale", "tiny", "--out", str(out)]) == 0
    return out


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_study_has_all_its_cells_files_and_plots(everything: Path, name: str) -> None:
    study, folder = tiny(name), everything / "studies" / name / "tiny"
    cells = pd.read_csv(folder / "cells.csv")
    filled = fill_tables(study, stored_trials(study, Store(everything)))
    assert len(cells) == sum(len(list(places(study, table))) for table in study.study.tables.values())
    accuracies = cells[cells["value"] == "test_accuracy"]
    assert (accuracies["n"] == 1).all()
    for number, table in enumerate(study.study.tables):
        stem = "table" if number == 0 else f"table-{table}"
        written = pd.read_csv(folder / f"{stem}.csv")
        spec = study.study.tables[table]
        assert written.shape == layout(spec, filled[table], *noted(spec, filled[table])).shape
        assert (folder / f"{stem}.md").stat().st_size
        assert (folder / f"{stem}.tex").stat().st_size
    for plot in study.study.plots:
        image = matplotlib.image.imread(folder / f"{plot}.png")
        assert min(image.shape[:2]) > 200
        assert np.unique(image).size > 10, "an empty picture"
        assert "<svg" in (folder / f"{plot}.svg").read_text()[:2000]
        assert (folder / f"{plot}.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "claims.csv").exists() == bool(study.study.claims)
    assert 10_000 < (folder / "report.html").stat().st_size < MOST_BYTES
    assert f'href="studies/{name}/tiny/report.html"' in (everything / "index.html").read_text()


def test_studies_share_their_trials(everything: Path, command: Command) -> None:
    own = [set(tiny(name).trials) for name in NAMES]
    union = set().union(*own)
    shared = sum(map(len, own)) - len(union)
    assert shared > 0
    code, text, _ = command(main, "all", "--scale", "tiny", "--dry-run", "--out", str(everything))
    assert code == 0
    assert f"{len(NAMES)} studies: {len(union)} trials, {len(union)} of them done" in text
    assert f"{shared} more trials are shared" in text
    assert {trial.hash for trial in Store(everything).all()} == union


@pytest.mark.usefixtures("everything")
def test_corrupted_and_long_tailed_clients_leave_the_cached_data_as_they_were() -> None:
    source = Embedded()
    cached, (fresh, _) = source(None), source.verify(None, download=False)
    for field, array in fresh._asdict().items():
        assert np.array_equal(getattr(cached, field), array)


def test_claims_are_printed_with_their_evidence(everything: Path, command: Command) -> None:
    code, text, _ = command(report_main, "gradient_coherence", "--scale", "tiny", "--check", "--out", str(everything))
    assert code == 0
    lines = re.findall(r"^(?:holds|fails|open) +\S.*$", text, re.MULTILINE)
    (left,) = re.findall(r"^(\d+) claims? ha(?:s|ve) no data yet", text, re.MULTILINE)
    assert len(lines) + int(left) == len(tiny("gradient_coherence").study.claims)
