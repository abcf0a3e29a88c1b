"""Images as files: references, manifests, layers, layouts, archives."""
