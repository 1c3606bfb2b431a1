"""A group of commands whose modules are imported only when they are used, so that start-up is fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands by name: the module that defines each one as ``command``, and a line of help."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.lazy:
            return None
        command: click.Command = importlib.import_module(self.lazy[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.lazy.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            from tensat_dl.core.diagnostics import did_you_mean

            hint = did_you_mean(args[0], self.lazy)
            raise click.UsageError(f"{e.message}{f' ({hint})' if hint else ''}", ctx) from None
