"""The handler of type `mayfly.on_dead`, which every runner has: it costs nothing until there is such a job."""

from mayfly.hooks import ON_DEAD_LANE, ON_DEAD_TYPE
from mayfly.job import Job
from mayfly.outcome import Cancel
from mayfly.registry import Handler
from mayfly.settings import Settings


def teller(settings: Settings) -> Handler:
    def tell(job: Job) -> bool:
        """Call the hook that the job names, if the settings name it too; whether there was a death to tell."""
        from mayfly.app import current_app  # here, as the rest: few runners ever need them
        from mayfly.hooks.deaths import read_dead
        from mayfly.hooks.find import ON_DEAD, find

        name = job.payload.get("hook")
        if name not in settings.hooks_on_dead:
            raise Cancel(f"{ON_DEAD} of this host does not name {name!r}: only what it names is called")
        found = read_dead(current_app().database, job.payload.get("job"))
        if found is not None:
            find(ON_DEAD, name).function(*found)
        return found is not None

    return Handler(ON_DEAD_TYPE, tell, lane=ON_DEAD_LANE, ack="each")
