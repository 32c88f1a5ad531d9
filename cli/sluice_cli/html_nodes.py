"""HTML and SVG put together from nodes, so that whatever is not a node is escaped: there is no way to forget it."""

from __future__ import annotations

from sluice_cli.plain_text import marked_up

_VOID = frozenset({"meta", "br", "hr", "rect", "line", "path"})


class Node(str):
    """Text that is markup. Only `tag`, `joined` and constants of this project make one."""


def tag(name: str, /, *children: object, **attributes: object) -> Node:
    """An element. Children that are no nodes are text, None is left out; of an attribute `class_` means class and `_` a dash."""
    told = "".join(
        f' {_attribute(key)}="{marked_up(str(value))}"' for key, value in attributes.items() if value is not None
    )
    if name in _VOID and not children:
        return Node(f"<{name}{told}/>")
    return Node(f"<{name}{told}>{joined(*children)}</{name}>")


def joined(*children: object) -> Node:
    """Nodes and texts one after another."""
    return Node(
        "".join(child if isinstance(child, Node) else marked_up(str(child)) for child in children if child is not None)
    )


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
