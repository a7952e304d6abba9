"""The one thin room that knows Ray: trials and searches, their runners, and progress."""
