"""All commands under one name: fedbench study, fedbench report, and so on."""

from fedbench.cli.main import console

__all__ = ["console"]

if __name__ == "__main__":
    console()
