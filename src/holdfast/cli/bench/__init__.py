"""`holdfast bench`: how fast Holdfast is on the user's own database and machine."""
