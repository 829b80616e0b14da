"""Games and studies in the browser: live games, studies, the web server, and pages without one."""
