"""Counts test cases after a ctest run and prints `N passed, N failed`.

usage: count_tests.py RESULTS

RESULTS/ctest.xml is ctest's JUnit report; RESULTS/gtest/<test>.xml is what the GoogleTest program behind
the ctest test <test> wrote. A test without such a file counts as one case, also a program that crashed
before it could write one. Exits with 1 when something failed or nothing ran.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def gtest_counts(report):
    """(passed, failed, skipped) of one GoogleTest XML report."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).iter("testcase"):
        if case.get("status") == "notrun":
            continue
        if case.find("failure") is not None:
            failed += 1
        elif case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(results):
    passed = failed = skipped = 0
    for test in ElementTree.parse(results / "ctest.xml").iter("testcase"):
        status = test.get("status")
        if status == "disabled":
            continue
        if status == "notrun":
            skipped += test.find("skipped") is not None
            failed += test.find("skipped") is None
            continue
        report = results / "gtest" / f"{test.get('name')}.xml"
        if report.exists():
            counts = gtest_counts(report)
            passed, failed, skipped = (a + b for a, b in zip((passed, failed, skipped), counts))
            # A program that fails outside its cases (a leak report, a crash at exit) failed all the same.
            failed += status == "fail" and counts[1] == 0
        elif status == "fail":
            failed += 1
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
