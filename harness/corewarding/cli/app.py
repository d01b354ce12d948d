"""``corewarding``: one command with verbs. Heavy packages are imported inside the verbs."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from corewarding import __version__
from corewarding.cli import compare, doctor, evaluate, grade, plugins, report
from corewarding.errors import CorewardingError

__all__ = ["app", "main"]

app = typer.Typer(
    name="corewarding",
    help="Train a model with each reward method from the same start, evaluate all of them the "
    "same way, and report who won, who held and who collapsed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 a run failed, 2 wrong request, 3 something is missing here.",
)

app.command("compare")(compare.compare)
app.command("train")(compare.train)
app.command("eval")(evaluate.evaluate)
app.command("grade")(grade.grade)
app.command("report")(report.report)
app.command("plugins")(plugins.plugins)
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, stream=sys.stderr)


def main() -> None:
    """Run the command line; user errors end in one message without a traceback."""
    # Progress bars of other packages would tear our own display.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except CorewardingError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command picks up from the last checkpoint", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)


if __name__ == "__main__":
    main()
