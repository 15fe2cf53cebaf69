"""Manifest files: reading with places, finding the steps in them, splicing policies into their text."""
