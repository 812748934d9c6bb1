from moetune._tool import main

main()
