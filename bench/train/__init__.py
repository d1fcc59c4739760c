"""The training loop, saved states of trainings, outputs of teachers in files, and predictions."""
