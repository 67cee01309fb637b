"""PostgreSQL and a Redis-compatible server out of wheels, for one machine.

The servers run as supervised children in the foreground, and not through the packages' own starters: those leave
PostgreSQL running behind a killed parent, give it ten seconds to recover, and open folders to everybody when root.
"""

import os

from app.failure import Failure

CLEAN = {"PATH": os.defpath, "LC_ALL": "C"}
"""The servers' environment: nothing of ours that they would take for settings of theirs."""


class ServerRefused(Failure):
    """An embedded server can't be set up."""
