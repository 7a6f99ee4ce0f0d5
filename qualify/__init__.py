"""Qualification and release of an accelerator's PyTorch stack.

The library is a pipeline of stages; every arrow between two stages is a file
with a digest. Readers return frozen facts, pure functions judge them, and only
the command line prints and exits.
"""

__version__ = "0.1.0"
