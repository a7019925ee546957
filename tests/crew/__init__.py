"""What guarantee and chaos tests share: real worker processes, their jobs, a ledger, a look into the database."""
