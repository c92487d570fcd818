"""Commands of those who end jobs, run them again or later, and ask why one does not go on."""
