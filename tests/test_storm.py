"""A short storm: four strikes of different kinds on one study. `benchmarks/storm.py` has many of every kind."""

import random
import re
from functools import partial
from pathlib import Path

import pytest

from fedbench.render.report import make_report
from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_short_storm_changes_no_result_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from storm import Storm
    from storms.command import Study
    from storms.kinds import Kind, flipped, here, killed

    calm = Study(tmp_path, 20, 1)
    study = expand(str(calm.file), "quick", changes={}, only={}, seeds=None)
    store = Store(calm.out)
    store.prepare()
    for config in study.trials.values():
        assert execute(config, store, None).status == "done"
    make_report(study, store)

    left = [killed("control store"), killed("Home"), killed("worker"), flipped]

    def strike(struck: Study, rng: random.Random) -> bool:
        return left[0](struck, rng) and bool(left.pop(0))

    storm = Storm(rounds=20, wanted=calm.results(), span=8.0, keep=tmp_path)
    row = storm.strike("four", Kind(partial(here, strike), late=True), 4, random.Random(17))
    said = "".join(path.read_text() for path in sorted(tmp_path.glob("four-*.log")))  # of all studies that it took
    assert (row.strikes, row.unequal, row.left, row.codes, row.noise) == (4, 0, [], [], []), said
    assert re.search(r"the command's process has ended unexpectedly \(\d+\); starting it again", said), said
    assert "does not have its checksum" in said or "damaged" in said
