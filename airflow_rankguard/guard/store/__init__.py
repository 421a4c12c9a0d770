"""The one place for the guard's SQL: a sentence each, taking a connection, never opening or committing one."""
