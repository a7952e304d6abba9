"""What study and space files may say, and the trials that they stand for."""
