from mayfly.cli.main import main

main()
