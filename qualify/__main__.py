"""`python -m qualify` is the program `qualify`."""

from qualify.cli import main

main()
