"""Manifests for Kubernetes: jobs of Kubeflow's operators, a claim for storage, and the job that fetches models once."""
