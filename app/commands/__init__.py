"""The commands of ``corrigenda``, a file each; ``app/cli.py`` loads the one that is asked for."""
