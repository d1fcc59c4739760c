"""The one training loop, the saved states of trainings, outputs of teachers that are read from files, and predictions."""
