"""One module for each operator: the object, what its operator sets in a pod, and what its webhook refuses."""
