"""Read what a chat model wrote. Pure functions; no reply raises."""
