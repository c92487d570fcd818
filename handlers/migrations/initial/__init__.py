"""The app_ tables as the first release creates them, one module per area."""
