from vaswani.cli import main

main()
