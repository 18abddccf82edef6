"""The `ryle` command."""


def main() -> None:
    """Run the command line."""
