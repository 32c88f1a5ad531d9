"""Fixtures of tests that stay in this process: the command line, built once, and the endpoints of emulated services, looked for once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import typer.main
from botocore.regions import EndpointRulesetResolver


@pytest.fixture(scope="session", autouse=True)
def command_line_built_once() -> Iterator[None]:
    """A process runs one command, and Typer builds all of them for it; the tests run many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", lru_cache(maxsize=None)(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def endpoints_found_once() -> Iterator[None]:
    """Here a client's endpoint depends on the operation and the bucket alone; botocore looks for it anew with every request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            EndpointRulesetResolver, "construct_endpoint", _remembering(EndpointRulesetResolver.construct_endpoint)
        )
        yield


def _remembering(find: Callable[..., Any]) -> Callable[..., Any]:
    found: WeakKeyDictionary[EndpointRulesetResolver, dict[tuple[str, Any], Any]] = WeakKeyDictionary()

    def remembered(
        resolver: EndpointRulesetResolver, operation_model: Any, call_args: Any, request_context: Any
    ) -> Any:
        known = found.setdefault(resolver, {})
        key = (operation_model.name, (call_args or {}).get("Bucket"))
        if key not in known:
            known[key] = find(resolver, operation_model, call_args, request_context)
        return known[key]

    return remembered
