"""Tables, figures and pages as people read them, and the files that hold them: made from the results of `analysis`."""
