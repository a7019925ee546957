"""Pure values and rules: no I/O, no clocks read behind the caller's back, no database words beyond column names."""
