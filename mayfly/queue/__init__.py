"""The dispatch core: all that is done to the jobs table, from enqueue to done."""
