#!/usr/bin/env python3
"""As judge.py, for sets whose manifest brings the keys of its tables and the kinds of key columns.

    judge_by_manifest.py SET ROWS [--phase NAME] [--divergence FILE] [--json]

Beyond judge.py: times beyond a day and below zero, dates at the edge of Python's, bytes in hex text, true for 1, shapes, and key columns by value (instant,
number, bytes, time). Of a table, --divergence names columns that the changes can't give (of all rows or of those with `keys`), extra_keys, missing_keys, and why.
"""
import argparse, base64, binascii, importlib.util, json, re, sys
from decimal import Decimal
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location('judge', Path(__file__).resolve().with_name('judge.py'))
J = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(J)
CLOCK = re.compile(r'^(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d+))?Z?$')
MOMENT = re.compile(r'^([+-]?\d{1,6}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?$')
MISSING = object()


def clock(text):
    m = CLOCK.match(text)
    return m and ((m[1] if int(m[2]) or int(m[3]) or int(m[4]) or int(m[5] or 0) else ''), int(m[2]), m[3], m[4], (m[5] or '').ljust(9, '0')[:9].rstrip('0'))


def moment(text):
    if text.endswith(' BC'):  # year 1 BC is year 0
        year, rest = text[:-3].split('-', 1)
        text = f'{1 - int(year):05d}-{rest}' if int(year) > 1 else f'0000-{rest}'
    m = MOMENT.match(text)
    if not m:
        return None
    try:
        return J.instant(text if m[2] else text + 'T00:00:00').isoformat()
    except ValueError:
        return (m[1].lstrip('+'), m[2] or '00:00:00', (m[3] or '').ljust(6, '0')[:6], m[4] in (None, 'Z', '+00:00', '+00'))


def octets(text):
    if text.startswith('\\x'):
        return {bytes.fromhex(text[2:])}
    values = set()
    standard = text.replace('-', '+').replace('_', '/') + '=' * (-len(text) % 4)
    for read in (lambda: base64.b64decode(standard, validate=True), lambda: bytes.fromhex(text)):
        try:
            values.add(read())
        except (binascii.Error, ValueError):
            pass
    return values


def same(want, got):
    if want in ('infinity', '-infinity') and got is None:  # docs/types.md
        return True
    if want is None or got is None:
        return want is got
    if isinstance(want, str) and isinstance(got, list):  # a vector, which the database writes as text
        want = J.parsed(want)
    if isinstance(want, str) and isinstance(got, str):
        if want == got:
            return True
        if want.startswith('\\x'):
            return bool(octets(want) & octets(got))
        if clock(want) and clock(got):
            return clock(want) == clock(got)
        if moment(want) and moment(got):
            return moment(want) == moment(got)
    if isinstance(want, (bool, Decimal)) and isinstance(got, bool) or isinstance(want, bool) and isinstance(got, Decimal):
        return bool(want) == bool(got) and want in (0, 1) and got in (0, 1)
    if isinstance(want, str) and want.startswith(('$', '-$')) and isinstance(got, (Decimal, str)):  # money
        return J.same(Decimal(want.replace('$', '').replace(',', '')), got)
    if isinstance(want, (dict, list)) and isinstance(got, str):
        got = J.parsed(got)
    if isinstance(want, dict):
        return isinstance(got, dict) and want.keys() == got.keys() and all(same(want[k], got[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(same(w, g) for w, g in zip(want, got))
    try:
        return J.same(want, got)
    except (ValueError, OverflowError):
        return False


def column(row, name, names):
    lake = re.sub(r'[^A-Za-z0-9_]', '_', name)
    for candidate in (names.get(name, name), name, lake, '_' + lake, lake.lower()):
        if candidate in row:
            return row[candidate]
    return MISSING


def identity(row, key, kinds, names):
    """The key by value; of bytes all readings of the text, since hexadecimal digits are base64 too."""
    out = []
    for k in key:
        v, kind = column(row, k, names), kinds.get(k)
        if v is MISSING or v is None:
            out.append(('<no column>' if v is MISSING else '<null>',))
        elif kind == 'number':
            out.append((str(Decimal(str(v)).normalize() + 0),))
        elif kind == 'instant':
            out.append((str(moment(str(v)) or v),))
        elif kind == 'time':
            out.append((str(clock(str(v)) or v),))
        elif kind == 'bytes':
            out.append(tuple(sorted(o.hex() for o in octets(str(v)))) or (str(v),))
        else:
            out.append((str(v),))
    return out


def rows_by_key(rows, key, kinds, names, wanted=None):
    by_key, doubled = {}, []
    for row in rows:
        choices = [()]
        for part in identity(row, key, kinds, names):
            choices = [c + (p,) for c in choices for p in part]
        i = next((c for c in choices if wanted is not None and c in wanted), choices[0])
        if i in by_key:
            doubled.append(i)
        by_key[i] = row
    return by_key, doubled


def judge_table(want_rows, got_rows, key, kinds, names, exempt, extra_ok, missing_ok):
    want, _ = rows_by_key(want_rows, key, kinds, names)
    got, doubled = rows_by_key(got_rows, key, kinds, names, want)
    different = {}
    for i in want.keys() & got.keys():
        for name, value in want[i].items():
            g = column(got[i], name, names)
            if any(name in names_ and (not keys or i in keys) for names_, keys in exempt) or g is MISSING and value is None:
                continue
            if g is MISSING or not same(value, g):
                different.setdefault(name, []).append((i, value, '<no such column>' if g is MISSING else g))
    return len(want), sorted(want.keys() - got.keys() - missing_ok), sorted(got.keys() - want.keys() - extra_ok), doubled, different


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('set', type=Path)
    p.add_argument('rows', type=Path)
    p.add_argument('--phase')
    p.add_argument('--divergence', type=Path)
    p.add_argument('--json', action='store_true')
    a = p.parse_args()
    man = json.loads((a.set / 'manifest.json').read_text())
    phases = {phase['phase']: phase for phase in man['phases']}
    if a.phase is not None and a.phase not in phases:
        p.error(f"no phase {a.phase!r}; there are {', '.join(phases)}")
    phase = phases[a.phase or man['phases'][-1]['phase']]
    file = a.divergence or a.set / 'divergence.json'
    divergence = json.loads(file.read_text()) if file.exists() else []
    failed, report = False, {}
    for table, expected in phase['expected'].items():
        mine = [d for d in divergence if d['table'] == table]
        path = a.rows / f'{table}.jsonl'
        if not path.exists():
            report[table], failed = {'error': 'no rows given'}, True
            continue
        columns = [(d.get('columns', []), {tuple(map(str, k)) for k in d.get('keys', [])}) for d in mine]
        keys = {name: {tuple(map(str, k)) for d in mine for k in d.get(name, [])} for name in ('extra_keys', 'missing_keys')}
        rows, missing, extra, doubled, different = judge_table(
            J.rows_of(a.set / expected['file']), J.rows_of(path), man['keys'][table], man['kinds'].get(table, {}), man['columns'].get(table, {}), columns,
            keys['extra_keys'], keys['missing_keys'])
        failed |= bool(missing or extra or doubled or different)
        report[table] = {'rows': rows, 'missing': len(missing), 'extra': len(extra), 'doubled': len(doubled), 'different': {c: len(v) for c, v in different.items()},
            'examples': [f'missing {x}' for x in missing[:4]] + [f'extra {x}' for x in extra[:4]]
            + [f'{c}: key {v[0][0]} database {str(v[0][1])[:120]!r} lake {str(v[0][2])[:120]!r}' for c, v in list(different.items())[:30]]}
    if a.json:
        print(json.dumps(report))
    else:
        for t, r in report.items():
            print(f'{t}: ' + ', '.join(f'{k} {v}' for k, v in r.items() if k != 'examples'))
            for e in r.get('examples', []):
                print('   ', e)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
