"""Commands of those who hold lanes and types up, let them go on, and set how many workers one may have."""
