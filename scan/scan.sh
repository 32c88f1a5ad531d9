#!/usr/bin/env bash
# The scanners, one after the other; fails when one of them finds something. Their reasons for what is skipped lie beside this file.
# pip-audit asks a vulnerability service on the internet: where none answers, that is said, and it decides nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${1:?usage: scan/scan.sh FOLDER-OF-THE-SCANNERS}
failed=0
step() { echo "== $1"; shift; "$@" || { failed=1; echo "FAILED: $1"; }; }

step "cfn-lint template.yaml" "$bin/cfn-lint" template.yaml
step "checkov template.yaml (scan/checkov.yaml)" "$bin/checkov" --file template.yaml --config-file scan/checkov.yaml --skip-download
step "bandit (scan/bandit.yaml)" "$bin/bandit" --quiet --recursive --configfile scan/bandit.yaml functions spark cli deploy local
for list in constraints.txt spark/requirements.txt functions/requirements.txt; do
  echo "== pip-audit $list"
  answer=$("$bin/pip-audit" --requirement "$list" --no-deps --disable-pip --progress-spinner off --format json 2>/dev/null)
  status=$?
  told=$(printf '%s' "$answer" | "$bin/python" -c '
import json, sys
try:
    found = json.load(sys.stdin)["dependencies"]
except (ValueError, KeyError):
    print("unasked: the vulnerability service gave no answer")
    raise SystemExit
for one in found:
    for hole in one.get("vulns", ()):
        print(one["name"], one["version"], hole["id"], "fixed in", ", ".join(hole["fix_versions"]) or "nothing yet")
skipped = [one["name"] for one in found if "skip_reason" in one]
if skipped:
    print(f"unasked: the service knew nothing of {len(skipped)} of {len(found)} packages")
')
  [ -z "$told" ] || echo "$told"
  if [ $status -ne 0 ] && ! grep -q '^unasked: the vulnerability' <<<"$told"; then failed=1; fi
done
exit $failed
