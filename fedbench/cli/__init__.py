"""What the command lines share: options, progress, tables on the screen, estimates."""
