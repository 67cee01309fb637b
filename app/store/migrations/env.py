"""Alembic's entry: runs the revisions over the connection that ``app/store/migrate.py`` gives it."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transaction_per_migration=True,
    version_table="alembic_version",
)
with context.begin_transaction():
    context.run_migrations()
