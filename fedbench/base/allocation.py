"""How processes that train are to keep memory."""

# glibc gives freed memory back to the system at once by default: large forwards then page-fault all the time.
WORKER_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
