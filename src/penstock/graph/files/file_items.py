"""Items of files: those that were found when the stream was built, and those that arrive while it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import DataError, GraphError, InternalError
from penstock.graph.files.folder_fields import constants
from penstock.graph.files.path_pattern import ANY_FOLDERS, PathPattern, fits, is_hidden
from penstock.graph.files.paths import File, PathFiles, file_at
from penstock.graph.source import Items
from penstock.graph.split import Bound, Split

Cut = Callable[[Sequence[File], int, Sequence[Bound], Collection[str] | None], Sequence[Split]]
"""Cuts any files of a source into splits: picklable, and small. See `Items.splits`."""


@dataclass(frozen=True, slots=True)
class FilesPlan:
    """Cuts the files that were found."""

    found: PathFiles
    cut: Cut

    def __call__(self, about_bytes: int, bounds: Sequence[Bound], columns: Collection[str] | None) -> Sequence[Split]:
        if self.found.nothing:
            raise GraphError(self.found.nothing)
        if not self.found.files:
            raise InternalError(f"{self.found.source}: its files were left out, so that only others can be cut")
        return self.cut(self.found.files, about_bytes, bounds, columns)


FileFormat = Literal["csv", "json", "parquet", "text"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FileItems(Items):
    """The items of files. A file that arrives later is cut and checked as those that were found.

    It must have the fields of the schema that was given, or else of the first file found. A folder may be empty when
    the stream is built, if the fields are known without a file: then nothing tells which partition folders it will
    have, so that they give no fields, and a batch over it is refused.
    """

    plan: FilesPlan
    format: FileFormat
    """`parquet`, `csv`, `json` or `text`."""

    @property
    def path(self) -> Any:
        """As the user gave it."""
        return self.plan.found.path

    @property
    def files(self) -> tuple[File, ...]:
        """Those found when the stream was built, in their order."""
        return self.plan.found.files

    @property
    def cut(self) -> Cut:
        return self.plan.cut

    @property
    def has_partitions(self) -> bool:
        """Whether partition folders are fields."""
        return self.plan.found.keys is not None

    def without_files(self) -> FileItems:
        """The same without the files that were found: small, for tasks that read others."""
        return replace(self, plan=replace(self.plan, found=replace(self.plan.found, files=())))

    @property
    def root(self) -> tuple[str, str]:
        """What Spark is to watch: a folder or a glob of folders to `load`, and a glob of names, its `pathGlobFilter`.

        To be read with `recursiveFileLookup`, since a folder means all that is in it. `takes` says which of the files
        that Spark finds are meant.
        """
        place = self._place
        if ANY_FOLDERS in place.pattern:
            raise self._watch_error(f"{place.given!r}, with any number of folders", "give the folder where they begin")
        if not place.pattern and any(file.path == place.base for file in self.files):
            raise self._watch_error(f"the file {place.given!r}", "give its folder")
        if place.pattern and is_hidden(place.pattern[-1]):
            raise self._watch_error(
                f"{place.given!r}", "rename the files: Spark leaves out what begins with '_' or '.'"
            )
        deeper = [file.path for file in self.files if len(place.below(file.path) or ()) > len(place.pattern) > 0]
        if deeper:
            raise self._watch_error(f"{place.given!r}, which matches the folder of {deeper[0]!r}", "give one folder")
        return place.folder_and_names()

    def takes(self, path: str) -> bool:
        """Whether a path is one of those that are read, from its name and its folders alone."""
        names = self._place.below(path)
        return names is not None and fits(names, self._place.pattern)

    def arrived_file(self, path: str, size: int | None = None) -> File:
        """The file of a path that has arrived, with the keys of the folders below the path that was given.

        The path is written as the file system does it or as Spark does it: `file:/a b`, `s3a://bucket/a%b`. Where the
        size is known from when the file was first seen, it must still be the same.
        """
        place, source = self._place, self.plan.found.source
        names = place.below(path)
        if names is None:
            raise DataError(f"{source}: file {path!r}: must lie below {place.address!r}, which is read; it does not")
        inside = f"{place.base.rstrip('/')}/{'/'.join(names)}"
        file = File(source, place.filesystem, inside, 0)
        info = _looked_at(file)
        if size is not None and info.size != size:
            raise DataError(
                f"{file.where}: must have {size} bytes, as when it was first seen; it has {info.size} now; write each "
                f"file once, under a name of its own"
            )
        return self._refuse_other_folders(file_at(source, place, info, self.has_partitions))

    def splits_of(
        self, files: Sequence[File], about_bytes: int, columns: Collection[str] | None = None
    ) -> Sequence[Split]:
        """The items of some files, in the order in which they are given; see `Items.splits`."""
        return self.cut(files, about_bytes, (), columns)

    @property
    def _place(self) -> PathPattern:
        listing = self.plan.found
        if listing.place is None:
            raise self._watch_error(f"a list of {len(listing.path)} paths", "give the folder that they lie in")
        return listing.place

    def _watch_error(self, got: str, advice: str) -> GraphError:
        return GraphError(
            f"{self.plan.found.source}: to be watched for new files, the path must be one folder, or a glob of names "
            f"in a folder ('folder/*.{self.format}'); got {got}; {advice}"
        )

    def _refuse_other_folders(self, file: File) -> File:
        expected, got = list(self.plan.found.keys or ()), [key for key, _ in file.keys]
        if got != expected:
            raise DataError(
                f"{file.where}: must lie in partition folders of the same names as the files found when the stream was "
                f"built; got {got} and {expected}; say partitions=False"
            )
        constants(file, {key: self.fields[key] for key in expected})
        return file


def _looked_at(file: File) -> pf.FileInfo:
    try:
        info = file.filesystem.get_file_info(file.path)
    except (OSError, pa.ArrowException) as error:
        raise file.unreadable(error) from None
    if info.type == pf.FileType.NotFound:
        raise DataError(f"{file.where}: must be there until it has been read; it is gone; put it back and start again")
    if info.type != pf.FileType.File:
        raise DataError(f"{file.where}: must be a file; it is none; write files only")
    return info
