"""How handlers call what is not ours. What an answer means for the job is decided here, once for all areas."""

from handlers.outside.client import Answer, Outside, TooMuch

__all__ = ["Answer", "Outside", "TooMuch"]
__handlers__ = ()  # of jobs there are none in here
