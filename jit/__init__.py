"""Load saved models as layers that run and train."""

from .holder import ProgramHolder
from .input_spec import InputSpec
from .lazy import LazyInitialized
from .load import load
from .save import save
from .translated_layer import TranslatedLayer

__all__ = ["InputSpec", "LazyInitialized", "ProgramHolder", "TranslatedLayer", "load", "save"]
