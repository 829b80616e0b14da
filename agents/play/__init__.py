"""People play: live games in the browser, their recordings, and the server (extra `[play]`)."""
