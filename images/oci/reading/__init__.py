"""Images in files that others wrote: OCI layouts, and what `docker save` writes."""
