"""Optimizers, learning-rate schedules, gradient clipping and regularisation."""
