"""Making the steps of a plan, one file a kind: teachers, artefacts, augmented rows, kept outputs, students, scores."""
