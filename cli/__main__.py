"""``python -m oarlock.cli``."""

from .main import main

raise SystemExit(main())
