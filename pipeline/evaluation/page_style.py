"""The style of the page: one of dark and light, as the reader has it."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: light-dark(#1c1e21, #e6e6e3); --paper: light-dark(#ffffff, #17191c); --pale: light-dark(#60656b, #a3a8ae);
  --rule: light-dark(#d9dce0, #363b41); --panel: light-dark(#f5f6f7, #1f2226);
  --hit: light-dark(#1a7f37, #56d364); --miss: light-dark(#b3261e, #ff8a80);
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 75rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.pale, figcaption { color: var(--pale); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .65rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; } svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--ink); }
.rule { stroke: var(--rule); } .line { fill: none; stroke-width: 2; }
.c0 { --c: light-dark(#3366cc, #7aa6ff); } .c1 { --c: light-dark(#c2571a, #ff9e5e); }
.c2 { --c: light-dark(#2b8a3e, #69db7c); } .c3 { --c: light-dark(#9c36b5, #da77f2); }
.c4 { --c: light-dark(#b8860b, #ffd43b); } .c5 { --c: light-dark(#0b7285, #3bc9db); }
.c6 { --c: light-dark(#a61e4d, #faa2c1); } .c7 { --c: light-dark(#5f6b7a, #b0bac5); }
.line, circle { stroke: var(--c); } circle, .bar { fill: var(--c); } .bar.pale { opacity: .35; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; background: var(--c); margin-right: .4em; }
.legend span { margin-right: 1.2em; white-space: nowrap; }
details { border-bottom: 1px solid var(--rule); padding: .35rem 0; content-visibility: auto;
  contain-intrinsic-size: auto 2rem; }
summary { cursor: pointer; } summary .marks { float: right; margin-left: 1rem; white-space: nowrap; }
.hit { color: var(--hit); } .miss { color: var(--miss); }
.modes { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: .2rem 1.5rem; }
.modes h3 { font-size: .95rem; margin: .8rem 0 .2rem; }
ol { margin: 0; padding-left: 2rem; font-size: .88rem; } li.hit { font-weight: 600; }
a { color: inherit; text-decoration-color: var(--rule); }
dl { font-size: .88rem; } dd { margin: 0 0 .6rem; color: var(--pale); } dt:target { background: var(--panel); }
dt:target, dt:target + dd { color: var(--ink); background: var(--panel); }
#missed:checked ~ details:not(.missed) { display: none; }
"""
