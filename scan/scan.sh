#!/usr/bin/env bash
# The scanners, one after the other; fails when one of them finds something. Their reasons for what is skipped lie beside this file.
# pip-audit asks PyPI, then OSV. Where neither knows the packages, the last line says that nothing was audited, and the scan fails unless
# SCAN_UNAUDITED=1 says that this is known.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${1:?usage: scan/scan.sh FOLDER-OF-THE-SCANNERS}
failed=0 unaudited=()
step() { echo "== $1"; shift; "$@" || { failed=1; echo "FAILED: $1"; }; }

step "cfn-lint template.yaml and examples" "$bin/cfn-lint" template.yaml examples/alarms/slack.yaml examples/account/*.yaml
step "checkov template.yaml (scan/checkov.yaml)" "$bin/checkov" --file template.yaml --config-file scan/checkov.yaml --skip-download
step "bandit (scan/bandit.yaml)" "$bin/bandit" --quiet --recursive --configfile scan/bandit.yaml functions spark cli deploy local

# Prints what is vulnerable. Ends with 0 if all packages are known and good, 1 if one is vulnerable, 2 if the service knows none of them.
audit() {
  "$bin/pip-audit" --requirement "$1" --vulnerability-service "$2" --no-deps --disable-pip --progress-spinner off --format json 2>/dev/null |
    "$bin/python" -c '
import json, sys
try:
    packages = json.load(sys.stdin)["dependencies"]
except (ValueError, KeyError):
    raise SystemExit(2)
holes = [(one, hole) for one in packages for hole in one.get("vulns", ())]
for one, hole in holes:
    print(one["name"], one["version"], hole["id"], "fixed in", ", ".join(hole["fix_versions"]) or "nothing yet")
skipped = [one["name"] for one in packages if "skip_reason" in one]
if skipped and not holes:
    print(f"{len(skipped)} of {len(packages)} packages are unknown to the service")
raise SystemExit(1 if holes else 2 if skipped else 0)
'
}
for list in constraints.txt spark/requirements.txt functions/requirements.txt; do
  echo "== pip-audit $list"
  for service in pypi osv; do
    audit "$list" "$service"
    status=$?
    [ $status -eq 2 ] || break
  done
  [ $status -ne 1 ] || failed=1
  [ $status -ne 2 ] || unaudited+=("$list")
done
if [ ${#unaudited[@]} -gt 0 ]; then
  echo "NOT AUDITED, since no vulnerability service answers: ${unaudited[*]}"
  [ -n "${SCAN_UNAUDITED:-}" ] || failed=1
fi
exit $failed
