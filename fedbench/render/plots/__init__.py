"""The kinds of plots, one file each: what a study file may say of it, and how it is drawn."""
