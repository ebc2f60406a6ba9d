from reshuffle.cli import main

main()
