"""Tables, plots and pages, written from figures."""
