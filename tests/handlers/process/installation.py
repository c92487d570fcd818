"""An installation of Mayfly with the handlers."""

from tests.process.installation import Installation


class HandlersInstallation(Installation):
    """The settings of a test may name other handlers."""

    def environment(self, **changes: str) -> dict[str, str]:
        return super().environment(**{"HANDLERS": "handlers", **self.settings, **changes})
