"""The web console and the HTTP API. Imports `mayfly`, but neither `dispatcher` nor `runner`."""
