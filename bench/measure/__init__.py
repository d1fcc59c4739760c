"""Sizes of models, and the machine they were measured on."""
