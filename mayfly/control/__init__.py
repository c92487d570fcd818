"""Commands of those who hold work up, end it, and ask why it does not go on."""
