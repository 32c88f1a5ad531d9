"""Objects of JSON: their text, their lines, and the rows and schemas of their records."""
