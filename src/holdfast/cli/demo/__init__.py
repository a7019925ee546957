"""`holdfast demo`: real workers, a real kill, and a ledger counted from what really happened."""
