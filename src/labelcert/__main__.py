"""`python -m labelcert` is the command line."""

from labelcert.cli import main

if __name__ == "__main__":
    main()
