"""The signals by which Mayfly's processes are told to stop, and which are held back until they can listen."""

import signal

# To a dispatcher: the next one is here and wants the host lock. To a runner: claim nothing more, and take your time.
HANDOVER = signal.SIGUSR1
STOPS = (signal.SIGTERM, signal.SIGINT, HANDOVER)
