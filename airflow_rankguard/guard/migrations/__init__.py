"""Alembic's home for the guard database; ``schema.py`` drives it."""
