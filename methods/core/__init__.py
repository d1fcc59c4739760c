"""What the methods stand on: models, losses, taps, layers. No file here is a method."""
