"""Tables of the generated documents."""

from collections.abc import Iterable


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

    names = list(columns)
    return line(names) + line("---" for _ in names) + "".join(line(row) for row in rows)
