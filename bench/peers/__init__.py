"""The bench next to the peers: one run, the same server, round by round in turns; committed acknowledgements count."""
