"""`python -m interleave`."""

from interleave.cli.main import main

main()
