"""The command line: `penstock`."""

from penstock.cli.commands import main

__all__ = ["main"]
