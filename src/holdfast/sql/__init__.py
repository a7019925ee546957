"""The SQL text: one file per verb and dialect, rendered for the driver at hand.  Nothing is executed here.

Templating hides in comments, so that the files stay valid SQL: `/*schema.*/job` is a table, `/*name*/x_idx` an index,
`/*id*/uuid` the type of job ids, `/*limit*/100` a literal number, and `:name` a parameter.
"""

from holdfast.sql.library import Script, SqlLibrary, Style

__all__ = ["Script", "SqlLibrary", "Style"]
