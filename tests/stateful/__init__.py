"""All verbs against a model."""
