"""An installation of Mayfly that runs the handlers that come with it."""

from tests.process.installation import Installation


class HandlersInstallation(Installation):
    """The settings of a test may name other handlers."""

    def environment(self, **changes: str) -> dict[str, str]:
        return super().environment(**{"HANDLERS": "handlers", **self.settings, **changes})
