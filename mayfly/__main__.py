from mayfly.cli import main

main()
