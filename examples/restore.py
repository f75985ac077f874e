"""Restore: `python -m examples.restore ARCHIVE -o FILE` writes the file that an archive of `dedup` was made of."""

from __future__ import annotations

import click

import penstock as ps
from examples import dedup_archive


@click.command()
@click.argument("archive")
@click.option(*("--output", "-o"), required=True, metavar="PATH", help="Where to write the file.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there already.")
def restore(archive: str, output: str, overwrite: bool) -> None:
    """Write the file that an archive was made of, whole or not at all."""
    try:
        size = dedup_archive.restore(archive, output, overwrite=overwrite)
    except ps.PenstockError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{archive} → {size:,} bytes, written to {output}")


if __name__ == "__main__":
    restore()
