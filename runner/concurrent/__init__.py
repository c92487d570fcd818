"""Jobs that run side by side: threads and asyncio tasks."""
