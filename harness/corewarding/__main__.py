"""``python -m corewarding``."""

from __future__ import annotations

from corewarding.cli.app import main

main()
