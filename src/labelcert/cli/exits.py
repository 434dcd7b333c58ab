"""Exit codes that scripts can rely on."""

EXIT_FAILED, EXIT_WRONG, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 1, 2, 3, 130
