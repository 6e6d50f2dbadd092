"""`strandline completion`: the script by which a shell completes commands, options and names."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from strandline_cli.shown.output import write_line

VARIABLE: Final = "_STRANDLINE_COMPLETE"
"""The variable by which a shell asks for completions; `main` looks at it."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(show_default=False, help="The shell to complete in.")],
) -> int:
    """Print the script by which a shell completes commands.

    bash: add `source <(strandline completion bash)` to ~/.bashrc.

    zsh: add the same with zsh to ~/.zshrc, after compinit.

    fish: write the output to ~/.config/fish/completions/strandline.fish.

    Example: strandline completion bash
    """
    from typer._completion_shared import get_completion_script

    write_line(
        get_completion_script(prog_name="strandline", complete_var=VARIABLE, shell=shell.value)
    )
    return 0


def prepare(command: Any) -> None:
    """Lets the command tree answer a shell: topics are completed too."""
    from typer._completion_classes import completion_init

    from strandline_cli.cluster.known_names import topic_names

    completion_init()
    for parameter in _parameters(command):
        if parameter.name in ("topic", "topics"):
            parameter._custom_shell_complete = lambda ctx, _, begun: topic_names(ctx.params, begun)


def _parameters(command: Any) -> Iterator[Any]:
    yield from command.params
    for child in getattr(command, "commands", {}).values():
        yield from _parameters(child)
