"""The command line. Each command is a module, imported when it is used: `sterna --help` loads no compiler."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from sterna.cli.failures import guarded, told_warnings
from sterna.cli.interrupts import orderly
from sterna.errors import error
from sterna.version import __version__

#: name -> (module, one line of help), in the order of the help page.
COMMANDS: dict[str, tuple[str, str]] = {
    "compile": ("compile", "Compile a model into a bundle."),
    "run": ("run", "Run a bundle, time it, profile its nodes."),
    "inspect": ("inspect", "Show what is in a bundle or a model."),
    "profile": ("profile", "Time every node of a bundle; write a trace for Perfetto."),
    "report": ("report", "Make a page that shows a bundle or a model: time, memory, errors."),
    "quantize": ("quantize", "Quantize a float model to 8 bits, with samples."),
    "fit": ("fit", "Say whether a model fits a microcontroller's board."),
    "tune": ("tune", "Try other schedules of a model's kernels; keep what is faster."),
    "verify": ("verify", "Compare a compiled model with a reference."),
    "rpc": ("rpc", "Make this machine a device for others, or ask one what it is."),
    "serve": ("serve", "Serve a page that runs a bundle in your browser."),
    "package": ("package", "Package a model for npm, Android, iOS, Debian, Arduino..."),
    "targets": ("targets", "List the targets, or describe one."),
    "doctor": ("doctor", "Show what is installed here, and what is missing."),
    "explain": ("explain", "Explain an error code: its cause, and what to do about it."),
    "demo": ("demo", "Compile a small trained model and run it on pictures."),
}


class Commands(click.Group):
    """A group whose commands are imported late, and which turns every failure into a coded message."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"sterna.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            if callable(reconfigure := getattr(stream, "reconfigure", None)):
                reconfigure(errors="replace")  # a terminal without the character shows another
        invoke = super().main

        def run() -> Any:
            if any("\0" in word for word in given):
                raise error("E0001", "an argument contains a zero character, which no file's name has")
            return invoke(given, prog_name or "sterna", complete_var, False, **extra)

        with orderly(), told_warnings():
            sys.exit(guarded(run, COMMANDS, as_json="--json" in given))


@click.group("sterna", cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="sterna", message="%(prog)s %(version)s")
def program() -> None:
    """Compiles trained models into small self-contained bundles, and runs them.

    \b
      sterna compile model.onnx -o model/      then      sterna run model/ --random
      sterna demo                              shows the whole way in a second
    """


def main() -> None:
    """The entry point of the command `sterna`."""
    program()


__all__ = ["COMMANDS", "main", "program"]
