"""`interleave models prompts`: list, show and import prompt packs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

prompt_packs = typer.Typer(
    help="List, show and import prompt packs.", no_args_is_help=True, rich_markup_mode=None
)


@prompt_packs.command("list")
def list_packs() -> int:
    """List the installed prompt packs."""
    from interleave.agents.prompts import describe_packs

    for description, folder in describe_packs():
        print(f"{description.name}  version {description.version}  {description.description}  ({folder})")
    return 0


@prompt_packs.command("show")
def show_pack(
    pack: Annotated[str, typer.Argument(metavar="PACK", help="A prompt pack.")] = "default",
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="One prompt.")] = None,
) -> int:
    """Print the prompts of a pack, or one prompt."""
    from interleave.agents.prompts import load_pack
    from interleave.errors import ConfigurationError, did_you_mean
    from interleave.text import visible

    texts = load_pack(pack).texts
    if prompt is not None and prompt not in texts:
        raise ConfigurationError(f"the pack {pack!r} has no prompt {prompt!r}. {did_you_mean(prompt, texts)}")
    for name in [prompt] if prompt else sorted(texts):
        if prompt is None:
            print(f"##### {name}")
        print(visible(texts[name]))
    return 0


@prompt_packs.command("import")
def import_checkout(
    checkout: Annotated[Path, typer.Argument(metavar="CHECKOUT", help="A checkout of the reference.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of the new pack.")] = "reference",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a pack of that name.")] = False,
    critic: Annotated[
        str,
        typer.Option(
            metavar="demo|ueval|rl",
            help="Take the critic's prompt from the demo, the benchmark or the RL training.",
        ),
    ] = "demo",
) -> int:
    """Import the prompts of the released checkpoints and of their scorer from a checkout of the reference.

    Its files are parsed, never executed. Do not share the pack: those prompts have no licence.
    """
    from interleave.agents.prompts.import_checkout import import_pack

    pack, folder = import_pack(checkout, name, replace=replace, critic=critic)
    others = f"others with --prompts {pack.name}"
    typer.echo(f"imported {pack.name!r}; the released checkpoints use it from now on, {others}", err=True)
    print(folder)
    return 0
