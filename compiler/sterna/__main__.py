"""`python -m sterna`, for where the command is not on the path."""

from sterna.cli import main

main()
