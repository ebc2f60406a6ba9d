"""`reshuffle` and `python -m reshuffle`: what is imported before Ctrl-C can be told in one line is as little as can be."""

import sys


def main() -> None:
    try:
        from reshuffle.cli import main as run
    except KeyboardInterrupt:
        print("reshuffle: interrupted before anything was finished", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
