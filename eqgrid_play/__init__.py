"""Games and studies in the browser: live games, studies, the web server, and pages without one."""

import eqgrid_lab  # noqa: F401 - first, since it names a package `agents` of someone else
