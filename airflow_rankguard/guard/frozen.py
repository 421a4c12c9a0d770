"""What the guard's values have in common: the fields of a dataclass, and methods that all their classes share."""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Frozen:
    """A value: made once, by keyword, and equal by content. A field's default is a value, never a factory.

    Each class is a dataclass, so that ``replace``, ``fields`` and ``asdict`` know it. But ``@dataclass(frozen=True)``
    writes and compiles some eight methods for each: a fifth of all that a new process did until it had its key.

    :param kw_only: False lets its arguments come without their names, too.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __match_args__: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, kw_only: bool = True) -> None:
        dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        fields = cls.__dataclass_fields__.items()
        cls._defaults = {name: field.default for name, field in fields if field.default is not MISSING}

    def __init__(self, *args: Any, **named: Any) -> None:
        given = dict(zip(self.__match_args__, args, strict=False), **named) if args else named
        whole = {**self._defaults, **given}
        if len(given) != len(args) + len(named) or whole.keys() != self.__dataclass_fields__.keys():
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.__dataclass_fields__)}")
        vars(self).update(whole)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check and normalise what was given."""

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), frozenset(vars(self).items())))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
        return f"{type(self).__qualname__}({said})"
