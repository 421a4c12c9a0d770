"""Run the migrations on the connection and in the schema that ``schema.py`` hands over."""

from __future__ import annotations

from alembic import context

attributes = context.config.attributes

context.configure(
    connection=attributes["connection"],
    version_table=attributes["version_table"],
    version_table_schema=attributes["schema"],
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations(schema=attributes["schema"])
