"""Write the distilled copies: `python tests/contract/distil.py FULL_RECORDINGS_DIRECTORY`.

Only what a replay needs stays: requests, the states before them, and the decisive fields of the answers.
"""

import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.contract.exchanges import read_full

HERE = Path(__file__).parent / "recordings"


def main(source: Path) -> None:
    HERE.mkdir(exist_ok=True)
    total = 0
    for path in sorted(source.glob("[0-9]*.json")):
        exchanges = read_full(path)
        if not exchanges:
            continue
        encoded = b"[\n" + b",\n".join(msgspec.json.encode(one) for one in exchanges) + b"\n]\n"
        (HERE / path.name).write_bytes(encoded)
        total += len(encoded)
        print(f"{path.name}: {len(exchanges)} exchanges, {len(encoded)} bytes")
    print(f"{total} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
