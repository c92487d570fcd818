from scripts.benchmark.cli import main

main()
