"""Known vulnerabilities of the locked packages: `make audit`.

pip-audit exits 0 and says that nothing was found when its advisory service cannot be reached and every
package was skipped. Skipped is not passed, so its report is read here and the one line says which it was:

    passed: 224 packages, no known vulnerability
    SKIPPED: 224 of 224 packages could not be audited …     (exit 0, nothing was learned)
    failed: NAME VERSION ADVISORY (fixed in …)              (exit 1, one line each)
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCKS = ("lock.txt", "lock-cuda.txt")


def main() -> int:
    folder = Path(__file__).resolve().parent
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-f", "json"]
    command += ["--progress-spinner", "off"]
    for lock in LOCKS:
        command += ["-r", str(folder / lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = None
    code, lines = verdict(report)
    print("\n".join(lines))
    return code


def verdict(report: Mapping[str, Any] | None) -> tuple[int, list[str]]:
    """The exit code and the lines to print for a report of pip-audit, or for none."""
    if report is None:
        return 0, ["SKIPPED: pip-audit gave no report (its advisory service did not answer)"]
    packages = report["dependencies"]
    failed = [
        f"failed: {package['name']} {package['version']} {found['id']}"
        + (f" (fixed in {', '.join(found['fix_versions'])})" if found.get("fix_versions") else "")
        for package in packages
        for found in package.get("vulns", ())
    ]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    lines = list(failed)
    if skipped or not packages:
        named = ", ".join(skipped[:5]) + (", …" if len(skipped) > 5 else "")
        lines.append(f"SKIPPED: {len(skipped)} of {len(packages)} packages could not be audited ({named})")
    elif not failed:
        lines.append(f"passed: {len(packages)} packages, no known vulnerability")
    return (1 if failed else 0), lines


if __name__ == "__main__":
    sys.exit(main())
