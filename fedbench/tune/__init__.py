"""The one thin room that knows Ray: a trainable, a runner, and progress."""
