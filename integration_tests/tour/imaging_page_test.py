"""docs/examples/imaging-pipeline/README.md, command by command."""

import unittest

import page


class ImagingPageTest(unittest.TestCase):
    def test_every_command_works_and_shows_what_the_page_says(self):
        page.run_page(self, "docs/examples/imaging-pipeline/README.md",
                      clean_up="./carillon down --name imaging-pipeline")


if __name__ == "__main__":
    unittest.main(verbosity=2)
