"""What commands and calls from Python do: run studies and searches, report, publish and verify trials."""
