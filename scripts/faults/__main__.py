from scripts.faults.cli import main

main()
