"""One small program per library; each runs in an environment of its own and imports nothing of Holdfast's but that."""
