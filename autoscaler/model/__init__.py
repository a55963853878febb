"""The words the program uses: frozen values without clock, I/O or logging."""
