"""A run that would read what it writes, or overwrite what it reads, is refused: by real paths, whatever links say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.streaming.test_streams import fill, ran

import penstock as ps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    fill(tmp_path, range(2))
    return tmp_path


def link(path: Path, to: Path) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)
    return path


Layout = Callable[[Path], tuple[Path, Path]]

NESTED: dict[str, tuple[Layout, str]] = {
    "the sink is the source": (lambda f: (f / "in", f / "ck"), "the sink .* both are"),
    "the sink lies in the source": (lambda f: (f / "in" / "x" / "out", f / "ck"), "the sink .* in "),
    "the sink lies in the source, hidden": (lambda f: (f / "in" / "_out", f / "ck"), "the sink .* in "),
    "the source lies in the sink": (lambda f: (f, f.parent / "ck"), "the source .* in "),
    "the checkpoint lies in the source": (lambda f: (f / "out", f / "in" / "ck"), "the checkpoint .* in "),
    "the checkpoint lies in the sink": (lambda f: (f / "out", f / "out" / "_ck"), "the checkpoint .* in "),
    "the sink lies in the checkpoint": (lambda f: (f / "ck" / "out", f / "ck"), "the sink .* in "),
    "by dots": (lambda f: (f / "other" / ".." / "in" / "out", f / "ck"), "the sink .* in "),
    "the sink is a link to the source": (lambda f: (link(f / "out", f / "in"), f / "ck"), "the sink .* both are"),
    "the sink lies in a link": (lambda f: (link(f / "l", f / "in") / "out", f / "ck"), "the sink .* in "),
    "a link in the source leads to the sink": (
        lambda f: (link(f / "in" / "deep" / "more", f / "out").resolve(), f / "ck"),
        "the sink .* to which a link in .* leads",
    ),
    "a link in the source leads to a folder around the checkpoint": (
        lambda f: (f / "out", link(f / "in" / "more", f / "others").resolve() / "ck"),
        "the checkpoint .* to which a link in .* leads",
    ),
}


@pytest.mark.parametrize("case", NESTED)
def test_a_stream_whose_folders_lie_in_each_other_is_refused(case: str, folder: Path, spark: Any) -> None:
    layout, message = NESTED[case]
    sink, checkpoint = layout(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(ps.GraphError, match=f"start: {message}"):
        ps.read_parquet(folder / "in").start(sink, checkpoint=checkpoint, spark=spark, trigger="available")
    assert sorted(folder.rglob("*")) == before


def test_the_source_itself_may_be_a_link(folder: Path, spark: Any) -> None:
    source = link(folder / "data", folder / "in")
    with pytest.raises(ps.GraphError, match=r"the sink .* must lie outside of the source"):
        ran(ps.read_parquet(source), folder / "in" / "out", folder, spark)
    ran(ps.read_parquet(source), folder / "out", folder, spark)
    assert ps.read_parquet(folder / "out").collect(spark=False).num_rows == 80


def test_a_glob_and_a_function_are_compared_too(folder: Path, spark: Any) -> None:
    with pytest.raises(ps.GraphError, match=r"the sink .* must lie outside of the source"):
        ran(ps.read_parquet(folder / "in" / "*.parquet"), folder / "in" / "out", folder, spark)
    with pytest.raises(ps.GraphError, match=r"the checkpoint .* must lie outside of the source"):
        ran(ps.read_parquet(folder / "in"), lambda table, batch: None, folder / "in", spark)


def test_folders_of_dataframes_and_of_sinks_of_sparks_are_compared_too(folder: Path, spark: Any) -> None:
    frame = spark.readStream.schema("at long, device string, value double").parquet(str(folder / "in"))
    for sink in (folder / "in" / "out", ps.spark_sink("parquet", path=folder / "in" / "out")):
        with pytest.raises(ps.GraphError, match=r"the sink .* must lie outside of the source"):
            ran(ps.from_spark(frame), sink, folder, spark)


# Batches


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("target", ["in", "in/out", ".", "link", "in/../in/out"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_a_batch_into_its_own_source_is_refused(target: str, mode: str, folder: Path) -> None:
    link(folder / "link", folder / "in")
    before = contents(folder)
    if target == "." and mode == "append":
        ps.read_parquet(folder / "in").write_parquet(folder, spark=False, mode=mode)  # beside, and not among, the input
        return
    error = ps.OutputError if target == "." and mode == "error" else ps.GraphError
    with pytest.raises(error, match=r"must not be overwritten: the source|must lie outside of the source|must not be"):
        ps.read_parquet(folder / "in").write_parquet(folder / target, spark=False, mode=mode)
    assert contents(folder) == before


def test_a_batch_that_would_destroy_the_file_that_a_link_leads_to_is_refused(folder: Path) -> None:
    (folder / "old").mkdir()
    (folder / "in" / "f000.parquet").rename(folder / "old" / "f.parquet")
    (folder / "in" / "link.parquet").symlink_to(folder / "old" / "f.parquet")
    before = contents(folder)
    with pytest.raises(ps.GraphError, match="must not be overwritten: the source"):
        ps.read_parquet(folder / "in").write_parquet(folder / "old", spark=False, mode="overwrite")
    assert contents(folder) == before


def test_a_batch_beside_what_its_glob_matches_is_written(folder: Path) -> None:
    stream = ps.read_parquet(folder / "in" / "f*.parquet")
    stream.write_parquet(folder / "in" / "out", spark=False)
    stream.write_parquet(folder / "in" / "out", spark=False, mode="overwrite")
    with pytest.raises(ps.GraphError, match="must not be overwritten"):
        stream.write_csv(folder / "in", spark=False, mode="overwrite")
    files = [folder / "in" / f"f00{at}.parquet" for at in range(2)]
    with pytest.raises(ps.GraphError, match="must not be overwritten"):
        ps.read_parquet(files).write_csv(folder / "in", spark=False, mode="overwrite")
    assert ps.read_parquet(folder / "in" / "out").collect(spark=False).num_rows == 80


def test_a_batch_of_a_dataframe_into_its_source_is_refused(folder: Path, spark: Any) -> None:
    stream = ps.from_spark(spark.read.parquet(str(folder / "in")))
    with pytest.raises(ps.GraphError, match="must not be overwritten"):
        stream.write_parquet(folder / "in", spark, mode="overwrite")
    with pytest.raises(ps.GraphError, match="must lie outside of the source"):
        stream.write_parquet(folder / "in" / "out", spark)
