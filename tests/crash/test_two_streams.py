"""Two streams into one folder, of which one is killed between its intent and its moves while the other starts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.crash.trial import Trial, in_order

import penstock as ps
from penstock.graph import reference


def test_a_stream_killed_between_intent_and_move_loses_nothing_to_another_in_its_folder(tmp_path: Path) -> None:
    trials = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        trials.append(Trial(tmp_path / name, "spikes"))
    one, two = trials
    (tmp_path / "out").mkdir()
    for trial in trials:
        (trial.folder / "out").symlink_to(tmp_path / "out")
    one.kill_at("intent written")
    two.finish()
    one.finish()
    written = ps.read_parquet(tmp_path / "out").collect(spark=False)
    wanted = [reference.run([each.graph.build(each.folder).node], is_open=True).tables[0] for each in trials]
    assert in_order(written).equals(in_order(pa.concat_tables(wanted)))
    assert [each.consumed() for each in trials] == [each.files for each in trials]
