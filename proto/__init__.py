"""Bytes to descriptions and back: file formats of saved models. Knows layouts, no meaning."""
