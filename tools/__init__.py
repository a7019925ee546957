"""Programs for working on Holdfast; nothing here is shipped."""
