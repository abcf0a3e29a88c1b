"""What is asked for -> what is built: versions that go together."""
