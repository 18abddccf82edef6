"""What a check of an observation file is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ryle.problems import Problem

if TYPE_CHECKING:
    from ryle.config.observation import Observation


@dataclass(frozen=True)
class Check:
    """A check and the tables that it reads."""

    tables: frozenset[str]
    find: Callable[[Observation], Iterator[Problem]]


CHECKS: list[Check] = []


def reads(*tables: str) -> Callable[[Callable[[Observation], Iterator[Problem]]], Check]:
    """Register a check that runs if these tables are valid by themselves."""

    def register(find: Callable[[Observation], Iterator[Problem]]) -> Check:
        CHECKS.append(Check(frozenset(tables), find))
        return CHECKS[-1]

    return register
