"""Write the tables of the pages in docs/ anew: `python -m scripts.pages`, in the root of the repository."""

from scripts.pages import tables

if __name__ == "__main__":
    for page, text in tables.written().items():
        page.write_text(text)
