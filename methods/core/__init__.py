"""The parts that methods stand on: models, losses, taps, layers. No file here is a method."""
