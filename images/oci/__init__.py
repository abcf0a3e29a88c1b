"""Images as files: references, manifests, layers, engines, archives."""
