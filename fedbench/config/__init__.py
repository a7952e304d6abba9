"""TrialConfig: every setting of one federated run, typed, resolved, checked and hashed."""
