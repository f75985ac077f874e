"""Generated files, kept from one run to the next in a folder for temporary files, by what they were made from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import GraphError
from penstock.examples import region_sum, spike_detection, taxi
from penstock.kernels.private import private_folder

VERSION = 1
"""Goes up when what is generated changes."""
ROW_GROUP = 1 << 20


def kept_folder() -> Path:
    """Where the files of all benchmarks are. It can be removed at any time."""
    path = Path(tempfile.gettempdir()) / f"penstock-bench-{os.geteuid()}"
    folder = private_folder(path)
    if folder is None:
        raise GraphError(
            f"bench: {str(path)!r} must be a folder that no other user can write, or not be there; it is another; "
            f"remove it, or set TMPDIR to another folder"
        )
    return folder


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, made once. It appears when it is whole."""
    folder = kept_folder() / f"{name}-v{VERSION}"
    if not folder.is_dir():
        draft = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            make(draft)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def paths(folder: Path) -> list[str]:
    """The files of a folder in their order."""
    return sorted(str(path) for path in folder.iterdir() if path.name.startswith("part-"))


def first(files: list[str], share: float, scale: str) -> list[str]:
    """The first files, at least one, for a peer that takes a share of them at `full`.

    Where there is little data it takes four times that share, or what a job costs by itself would count for too much.
    """
    taken = share if scale == "full" else min(1.0, 4 * share)
    return files[: max(1, round(taken * len(files)))]


def size(files: list[str]) -> int:
    """The bytes of some files."""
    return sum(os.path.getsize(path) for path in files)


def rows(files: list[str]) -> int:
    """The rows of some Parquet files."""
    return sum(pq.read_metadata(path).num_rows for path in files)


# What each benchmark reads


def regions(elements: int, region: int | None, largest: int) -> Path:
    """Composite rows of integers, each file about 4 M of them: of `region` integers each, or of 0 to `largest`."""
    what = f"0-{largest}" if region is None else region
    return kept(
        f"regions-{elements}-{what}",
        lambda folder: region_sum.generate(folder, elements, region=region, largest=largest),
    )


def lines(count: int, pieces_a_file: int) -> Path:
    """Lines like those of the Porto taxi set."""

    def make(folder: Path) -> None:
        for number, piece in enumerate(taxi.pieces(count)):
            with open(folder / f"part-{number // pieces_a_file:05d}.txt", "ab") as file:
                file.writelines(line + b"\n" for line in piece.column(0).cast(pa.binary()).to_pylist())

    return kept(f"taxi-{count}-{pieces_a_file}", make)


def readings(count: int, devices: int, named: bool, files: int) -> Path:
    """Readings of sensors, `device` and `value`, with a `time` that goes up: the order, for those who need it told."""

    def make(folder: Path) -> None:
        waiting: list[pa.Table] = []
        start, number, a_file = 0, 0, -(-count // files)
        for batch in spike_detection.pieces(count, devices=devices, named=named):
            time = pa.array(np.arange(start, start + batch.num_rows))
            waiting.append(pa.Table.from_batches([batch]).append_column("time", time))
            start += batch.num_rows
            while sum(map(len, waiting)) >= a_file or (start == count and waiting):
                table = pa.concat_tables(waiting)
                pq.write_table(table.slice(0, a_file), folder / f"part-{number:05d}.parquet", row_group_size=ROW_GROUP)
                waiting = [table.slice(a_file)] if len(table) > a_file else []
                number += 1

    return kept(f"keyed-{count}-{devices}{'-named' if named else ''}-{files}", make)


def touches(keys: int, touched: int, batches: int, times: int = 1) -> Path:
    """A file with every `key`, then as many as `batches` with some keys each, at random; `value` is 0 to 99 in turn.

    The first has every key so many `times`, at random as well if more than once.
    """

    def make(folder: Path) -> None:
        random = np.random.default_rng([keys, touched])
        all_keys = np.arange(keys) if times == 1 else random.permutation(np.tile(np.arange(keys), times))
        for number in range(1 + batches):
            key = random.choice(keys, touched, replace=False) if number else all_keys
            table = pa.table({"key": key, "value": np.arange(len(key)) % 100})
            pq.write_table(table, folder / f"part-{number:05d}.parquet", row_group_size=ROW_GROUP)

    return kept(f"touches-{keys}-{touched}-{batches}{'' if times == 1 else f'-{times}'}", make)


def single_rows(count: int) -> Path:
    """Files of one row each: a `key` of a thousand, and a `value` that is 0 to 99 in turn."""

    def make(folder: Path) -> None:
        for number in range(count):
            table = pa.table({"key": [number % 1000], "value": [number % 100]})
            pq.write_table(table, folder / f"part-{number:05d}.parquet")

    return kept(f"single-rows-{count}", make)
