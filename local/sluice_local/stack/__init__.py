"""The local stack: the template's overlay, its deployment and its parts."""
