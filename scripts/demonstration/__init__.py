"""The platform in two minutes: sample people, boards and posts, stand-ins for everything outside, and real cycles."""
