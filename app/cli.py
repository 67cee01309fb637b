"""The ``corrigenda`` command. Each command's module is loaded when it is asked for, so that all start quickly."""

from __future__ import annotations

import importlib
import keyword
from typing import Any

import click

_COMMANDS = {
    "up": "app.commands.up",
    "api": "app.commands.serve",
    "worker": "app.commands.work",
    "relay": "app.commands.work",
    "beat": "app.commands.work",
    "migrate": "app.commands.migrate",
    "token": "app.commands.token",
    "import": "app.commands.importing",
    "export": "app.commands.exporting",
    "test-set": "app.commands.test_set",
    "test-run": "app.commands.test_run",
    "doctor": "app.commands.doctor",
    "openapi": "app.commands.openapi",
}
"""In the order of ``--help``. A module defines the command under its name: ``_`` for ``-``, and behind a keyword."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_") + "_" * keyword.iskeyword(cmd_name)
        command: click.Command = getattr(importlib.import_module(_COMMANDS[cmd_name]), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # Loaded here, as commands are: a Ctrl-C while libraries load is click's to answer, with no traceback.
            line = importlib.import_module("app.commands.failures").explained(error)
            if line is None:
                raise
            raise click.ClickException(line) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="corrigenda")
def main() -> None:
    """Keeps corrections of AI agent runs and sees each one through to a fix."""


if __name__ == "__main__":
    main()
