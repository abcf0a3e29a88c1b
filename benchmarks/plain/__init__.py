"""A plain processor: one without units for bf16, which computes in float32."""
