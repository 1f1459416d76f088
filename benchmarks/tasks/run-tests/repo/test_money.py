import unittest

from money import parse, show


class MoneyTest(unittest.TestCase):
    def test_show_whole(self):
        self.assertEqual(show(500), "5.00")

    def test_show_small(self):
        self.assertEqual(show(7), "0.07")

    def test_parse_whole(self):
        self.assertEqual(parse("12"), 1200)

    def test_parse_cents(self):
        self.assertEqual(parse("12.34"), 1234)

    def test_parse_tenths(self):
        self.assertEqual(parse("3.5"), 350)

    def test_there_and_back(self):
        self.assertEqual(show(parse("99.01")), "99.01")


if __name__ == "__main__":
    unittest.main()
