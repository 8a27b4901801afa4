"""What the workers of every workload do: take inputs, and deliver what comes of them."""
