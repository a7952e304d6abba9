"""Pages to look at: plain, typed content made of reports, and the HTML that is written of it."""
