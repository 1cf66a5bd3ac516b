"""`python -m gbfix`."""

from gbfix.cli import main

if __name__ == "__main__":
    main()
