"""Background services of a worker: each has a `run_once() -> counts`, and one loop runs them all alike."""
