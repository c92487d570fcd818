"""Passwords of people: only their argon2 hashes are kept, in the settings. argon2 comes with the extra `console`."""

from mayfly.errors import ConsoleMissing

SHORTEST = 8
# Of a password that nobody has: to try it takes as long as to try a real one.
DUMMY = "$argon2id$v=19$m=65536,t=3,p=4$bWF5Zmx5LW1heWZseS1tYQ$5QyVHmGj0iG9Nd9HtbOxN9Vn6xrOc5pVYk1oYdCVXEY"


def hash_of(password: str) -> str:
    try:
        from argon2 import PasswordHasher  # here: only those need it who make or check one
    except ModuleNotFoundError as error:
        raise ConsoleMissing(error.name or "") from error
    return PasswordHasher().hash(password)


def matches(password_hash: str, password: str) -> bool:
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return PasswordHasher().verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False
