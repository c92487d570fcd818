"""How handlers call what is not ours. What an answer means for the job is decided here, once for all areas."""

from handlers.outside.client import Answer, Outside, TooMuch, Unanswered
from handlers.outside.people import given_by_people

__all__ = ["Answer", "Outside", "TooMuch", "Unanswered", "given_by_people"]
__handlers__ = ()  # of jobs there are none in here
