"""An extension of Griffe, which reads the code for the reference: it shows values with the arguments that they take."""

import ast
from typing import Any

from griffe import Class, Decorator, Extension, get_expression


class ValueSignatures(Extension):
    """Lets Griffe take a class of ``guard.frozen.Frozen`` for a dataclass, which it knows by the decorator alone."""

    def on_class_instance(self, *, cls: Class, **_: Any) -> None:
        """Write the decorator that the class does without."""
        if cls.parent is None or "Frozen" not in map(str, cls.bases):
            return
        written = f"dataclasses.dataclass(frozen=True, kw_only={cls.keywords.get('kw_only', True)})"
        expression = get_expression(ast.parse(written, mode="eval").body, parent=cls.parent)
        assert expression is not None
        cls.decorators.append(Decorator(expression, lineno=cls.lineno, endlineno=cls.lineno))
