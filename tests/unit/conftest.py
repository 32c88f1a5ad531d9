"""What the unit tests share."""

from in_one_process import command_line_built_once, endpoints_found_once  # noqa: F401
