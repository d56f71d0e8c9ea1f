"""Looks into a trained run or a published model: verdicts, measures, pictures, and a page."""
