"""The command `fedbench`: its help, its version, and what it starts."""

from collections.abc import Callable

import pytest

import fedbench
from fedbench.cli.main import COMMANDS, main, parser, parser_of

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("option", ["--help", "-h", "help"])
def test_help_lists_every_command_with_its_purpose_and_an_example(command: Command, option: str) -> None:
    code, text, error = command(main, option)
    assert (code, error) == (0, "")
    for name, listed in COMMANDS.items():
        assert f"  {name} " in text
        assert listed.purpose in text
        assert listed.example in text


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_of_the_help_is_a_command_line_that_its_parser_takes(name: str) -> None:
    words = COMMANDS[name].example.split()
    assert words[:2] == ["fedbench", name]
    assert parser().parse_args(words[1:]).command == name  # a wrong one would exit
    parser_of(name).parse_args(words[2:])


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_printed(command: Command, option: str) -> None:
    assert command(main, option) == (0, f"fedbench {fedbench.__version__}\n", "")


def test_help_of_a_command_is_that_commands_own(command: Command) -> None:
    code, text, _ = command(main, "help", "study")
    assert code == 0
    assert "--scale" in text


def test_an_unknown_command_is_one_line_with_the_nearest_right_one(command: Command) -> None:
    code, text, error = command(main, "stduy")
    assert (code, text) == (2, "")
    assert error.startswith("error: unknown command 'stduy'; did you mean 'study'?")
    assert len(error.splitlines()) == 1
