"""Say whether two correlations of the same samples agree: ``python bench/compare_backends.py FILE_A FILE_B``."""

import sys
from pathlib import Path

from ryle.bench.compare import compare

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found = compare(Path(sys.argv[1]), Path(sys.argv[2]))
    print(found)
    sys.exit(not found.agree)
