"""What an operator can cause and mend: one line on standard error and a non-zero exit, never a traceback."""


class Failure(Exception):
    """Something can't be done. The message is one line that says why, and what to do."""
