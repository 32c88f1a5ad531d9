"""The style sheet of the status page."""

from __future__ import annotations

from collections.abc import Mapping

from sluice_cli.status.html import Node
from sluice_cli.terminal.colours import DARK, LIGHT


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


STYLE = Node(
    f"\n:root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
    f"@media(prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);
font:14px/1.45 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:20px 16px 48px;display:grid;grid-template-columns:minmax(0,1fr);gap:14px}
header{display:flex;flex-wrap:wrap;gap:2px 16px;align-items:baseline}
h1{font-size:20px;margin:0}h2{font-size:15px;margin:0 0 8px}h3{font-size:13px;margin:0}
.faint,.axis,.scale{color:var(--faint)}small{font-size:12px}
p{margin:0}a{color:var(--accent);text-underline-offset:2px}th a{color:inherit;text-decoration-color:var(--faint)}
section,.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;min-width:0}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.accent{color:var(--accent)}
.shape{width:11px;height:11px;fill:currentColor}
.shape .outlined{fill:none;stroke:currentColor;stroke-width:2}
.state{font-weight:600;white-space:nowrap}.state .shape{margin-right:6px;vertical-align:-1px}
.legend{display:flex;flex-wrap:wrap;gap:2px 18px;font-size:12px;color:var(--faint)}
.legend>span{display:flex;align-items:baseline}.legend .state{font-weight:400}
.legend .chart{display:inline-block;flex:none;width:22px;height:12px;position:relative;top:2px;margin-right:6px}
code{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
.command{user-select:all;background:var(--bg);border:1px solid var(--line);border-radius:5px;padding:1px 6px}
.trouble{border-left:4px solid var(--bad)}.trouble.mild{border-left-color:var(--warn)}
.trouble.none{border-left-color:var(--good)}
.trouble ul{list-style:none;margin:0;padding:0}
.trouble li{display:grid;grid-template-columns:122px minmax(0,1fr);gap:2px 12px;padding:5px 0;
border-top:1px solid var(--line)}
.trouble li>div{overflow-wrap:anywhere}.trouble li .commands{display:flex;flex-wrap:wrap;gap:4px 8px;grid-column:2}
.tiles{display:grid;grid-template-columns:repeat(6,minmax(0,1fr));gap:12px}.tile{padding:10px 14px}
.tile b{display:block;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:0 -16px;padding:0 16px}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:6px 14px 6px 0;border-top:1px solid var(--line);vertical-align:top}
th:last-child,td:last-child{padding-right:0}
thead th{border-top:0;color:var(--faint);font-weight:500;font-size:12px;vertical-align:bottom;padding-top:0}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}
tbody th{font-weight:600;overflow-wrap:break-word;min-width:140px}td>span>code,td a code{white-space:nowrap}
td.empty{color:var(--faint)}td .command{white-space:normal}td.long{overflow-wrap:anywhere;min-width:170px}
.chart{display:block;width:100%;overflow:visible}.chart .fill{fill:var(--soft)}
.chart .stroke,.chart .held{stroke:var(--accent);stroke-width:1.5}.chart .held{fill:var(--soft);stroke-width:1}
.chart .grid{stroke:var(--line);stroke-width:1}.chart .mark{fill:var(--good)}
.chart .none{fill:none;stroke:var(--wait);stroke-width:1}.chart .wait{fill:var(--wait)}.chart .bad{fill:var(--bad)}
.chart .failed{fill:none;stroke:var(--bad);stroke-width:1.5}
.plot{display:grid;grid-template-columns:auto minmax(0,1fr);gap:0 8px;margin-top:6px}
.scale{display:flex;flex-direction:column;justify-content:space-between;text-align:right;font-size:12px;line-height:1;
font-variant-numeric:tabular-nums}.plot .axis{grid-column:2}
.strip{display:grid;grid-template-columns:190px minmax(0,1fr) 212px;gap:2px 14px;align-items:center;
border-top:1px solid var(--line);padding:5px 0}.strip>:first-child{font-weight:600;overflow-wrap:anywhere}
.strip>:last-child{text-align:right}.axis.under{margin:0 226px 6px 204px}
.axis{display:grid;grid-template-columns:1fr 2fr 2fr 2fr 1fr;font-size:12px;padding-top:4px;text-align:center;
white-space:nowrap;font-variant-numeric:tabular-nums}.axis :first-child{justify-self:start}
.axis :last-child{justify-self:end}.legend+.wide{margin-top:12px}
.look{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(420px,100%),1fr));gap:10px 24px}
.look>div{min-width:0;padding:2px 6px;margin:-2px -6px;border-radius:6px;overflow-wrap:anywhere}
.look>div:target{outline:2px solid var(--accent)}
.look p{display:flex;flex-wrap:wrap;gap:0 8px;align-items:baseline;padding:2px 0}.look small{color:var(--faint)}
td .command{display:inline-block;margin-bottom:3px}
#aside h3{margin:24px 0 8px}#aside h2+h3{margin-top:12px}.tile .bad{white-space:nowrap}
@media(min-width:1201px){td.n+td:not(.n),th.n+th:not(.n){padding-left:10px}
#aside table{table-layout:fixed}#aside th:first-child{width:82px}#aside th:nth-child(3){width:65%}}
@media(min-width:1600px){main{max-width:1840px;grid-template-columns:minmax(0,1fr) minmax(0,1fr)}
main>*{grid-column:1/-1}main>.half{grid-column:auto}}
@media(max-width:1200px){
main{padding:14px 10px 32px;gap:10px}section{padding:12px}
.tiles{grid-template-columns:repeat(3,minmax(0,1fr));gap:8px}.tile{padding:6px 10px}.tile b{font-size:17px}
.trouble li{grid-template-columns:minmax(0,1fr);padding:8px 0}.trouble li .commands{grid-column:1}
.wide{overflow:visible;margin:0;padding:0}
table,tbody,tr,td,tbody th{display:block;min-width:0;padding:0;border:0}thead{display:none}
tr{border-top:1px solid var(--line);padding:8px 0}
td,td.n,td.long{display:flex;justify-content:space-between;gap:4px 16px;padding:2px 0;text-align:right;min-width:0;
white-space:normal}td>span{min-width:0;overflow-wrap:anywhere}
td::before{content:attr(data-label);color:var(--faint);text-align:left;flex:none}
td.long{flex-direction:column;text-align:left}td.empty.empty{display:none}
.strip{grid-template-columns:minmax(0,1fr) auto}.strip>svg{grid-row:2;grid-column:1/3}.axis.under{margin:0 0 10px}
.axis :nth-child(2n){visibility:hidden}}
"""
)
