"""Which packages of a lock have known vulnerabilities: the gate before an image is published."""
