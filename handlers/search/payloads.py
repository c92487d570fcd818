"""What a rebuild is told: nothing, and nothing else is taken."""

from pydantic import BaseModel, ConfigDict


class Rebuild(BaseModel):
    model_config = ConfigDict(extra="forbid")
