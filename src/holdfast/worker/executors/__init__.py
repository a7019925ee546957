"""Where handlers run: on the event loop, in threads, in processes. The slots decide what runs; these do it."""
