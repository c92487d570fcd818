"""The application in handlers/ in two minutes: sample data, fake services, real cycles."""
