"""What `storm.py` is made of: a study as a command under watch, and the strikes that meet it."""
