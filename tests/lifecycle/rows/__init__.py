"""The rows, but for those that stop what all of them need."""

from tests.lifecycle.rows import endings, marks, removals, shapes

ROWS = (*endings.ROWS, *marks.ROWS, *removals.ROWS, *shapes.ROWS)
