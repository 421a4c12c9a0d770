"""The page's data and the REST API."""
