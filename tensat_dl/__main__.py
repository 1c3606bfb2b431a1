"""``python -m tensat_dl``"""

from tensat_dl.cli.main import main

main()
