"""What the guarantee and chaos tests share: real worker processes, their jobs, a ledger, and a look into the database."""
