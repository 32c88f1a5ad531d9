"""The state of a stack, now and in the recent past: `sluice status`, its page, and `sluice top`."""
