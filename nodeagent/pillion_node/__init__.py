"""What runs where the GPU is."""
