"""Making the steps of a plan, one file a kind.

Teachers, artefacts, augmented rows, kept outputs, students and scores.
"""
