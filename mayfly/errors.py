"""Every error that people can meet: its class writes the sentence that says what to do."""


class MayflyError(Exception):
    """Something a person can put right; its text is shown without a traceback."""


class UsageError(MayflyError):
    """The command line or the settings are wrong: exit 64."""


class SettingsError(UsageError):
    """A setting is out of bounds, misspelled or does not fit another."""
