"""Alembic's scripts. Each revision runs the SQL file beside it, in a transaction of its own."""
