/* The report: views of one recording. Texts of the program that was recorded are put in as text, never as markup. */
'use strict';
(() => {
  const root = document.documentElement;
  root.dataset.ready = 'no';
  const data = JSON.parse(document.getElementById('data').textContent);
  const ORIGINS = ['your code', 'packages', 'standard library', 'native code', 'process, thread'];
  const ROW = 18, ROWS_MAX = 600, BOXES_MAX = 12000, DEEPEST = 400;
  const timed = data.unit !== 'samples';
  const plural = (n, one) => n.toLocaleString('en') + ' ' + one + (n === 1 ? '' : 's');

  function element(tag, attributes = {}, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) e.setAttribute(name, value);
    }
    e.append(...children);
    return e;
  }

  function amount(value) {
    return timed ? (value / 1e6).toFixed(3) + ' s' + (data.unit === 'cpu' ? ' of CPU' : '') : plural(value, 'sample');
  }
  const percent = (value, of) => (of ? 100 * value / of : 0).toFixed(2) + ' %';

  /* ---- frames and functions ---- */

  const frames = data.frames.map(([name, file, line, first, origin, path]) => ({ name, file, line, first, origin, path }));
  const functions = [];
  const functionOf = (() => {
    const known = new Map();
    return frames.map((f) => {
      const key = f.name + '\n' + f.file + '\n' + f.first;
      if (!known.has(key)) {
        known.set(key, functions.length);
        functions.push({ name: f.name, file: f.file, first: f.first, origin: f.origin, path: f.path });
      }
      return known.get(key);
    });
  })();

  const state = { view: 'flame', byLine: false, track: -1, search: null, sort: {}, zoom: { flame: [], inverted: [] }, file: -1, lineWanted: 0 };
  const labelOf = (key) => {
    const f = state.byLine ? frames[key] : functions[key];
    const where = state.byLine && f.line ? f.file + ':' + f.line : f.file;
    return where ? f.name + ' (' + where + ')' : f.name;
  };
  const originOf = (key) => (state.byLine ? frames[key] : functions[key]).origin;
  const keyOf = (frame) => (state.byLine ? frame : functionOf[frame]);

  /* What ends in each stack, of the threads that are chosen. */
  function selfOfStacks() {
    const self = new Float64Array(data.parent.length);
    for (let i = 0; i < data.totals.length; i += 4) {
      if (state.track < 0 || data.totals[i] === state.track) self[data.totals[i + 1]] += data.totals[i + (timed ? 3 : 2)];
    }
    return self;
  }

  /* ---- call trees ---- */

  const newNode = (key, parent) => ({ key, parent, self: 0, total: 0, children: new Map() });
  function below(node, key) {
    let child = node.children.get(key);
    if (!child) node.children.set(key, child = newNode(key, node));
    return child;
  }

  function forward(self) {
    const top = newNode(-1, null), nodes = new Array(self.length);
    nodes[0] = top;
    const used = new Uint8Array(self.length);
    for (let i = self.length - 1; i > 0; i--) if (self[i] > 0 || used[i]) used[i] = used[data.parent[i]] = 1;
    for (let i = 1; i < self.length; i++) {
      if (!used[i]) continue;
      nodes[i] = below(nodes[data.parent[i]], keyOf(data.frame[i]));
      nodes[i].self += self[i];
      for (let n = nodes[i]; n && self[i]; n = n.parent) n.total += self[i];
    }
    return top;
  }

  function backward(self) {
    const top = newNode(-1, null);
    for (let i = 1; i < self.length; i++) {
      if (!self[i]) continue;
      top.total += self[i];
      let node = top, depth = 0;
      for (let s = i; s > 0 && depth < DEEPEST; s = data.parent[s], depth++) {
        node = below(node, keyOf(data.frame[s]));
        node.total += self[i];
      }
      node.self += self[i];
    }
    return top;
  }

  /* ---- the page ---- */

  const views = { flame: 'Flame graph', inverted: 'Inverted', time: 'Time line', functions: 'Functions', lines: 'Lines', source: 'Source' };
  const main = element('main', { id: 'view', tabindex: '-1' });
  const tabs = Object.entries(views).map(([name, label], i) => element('button', {
    role: 'tab', id: 'tab-' + name, 'aria-controls': 'view', title: 'key ' + (i + 1), onclick: () => show(name),
  }, label));
  const search = element('input', { type: 'search', id: 'search', placeholder: 'Search (/)', 'aria-label': 'Search', oninput: () => { setSearch(search.value); draw(); } });
  const chooser = element('select', { id: 'track', 'aria-label': 'Thread', onchange: () => { state.track = Number(chooser.value); reset(); draw(); } },
    element('option', { value: '-1' }, 'all threads'),
    ...data.tracks.map((t, i) => element('option', { value: i }, t.process + ' · ' + t.thread)));
  const lines = element('input', { type: 'checkbox', id: 'by-line', onchange: () => { state.byLine = lines.checked; reset(); draw(); } });
  const light = element('button', { id: 'theme', type: 'button', onclick: () => { root.classList.toggle('dark'); draw(); } }, 'Light or dark');

  function setSearch(text) {
    try { state.search = text ? new RegExp(text, 'i') : null; } catch { state.search = null; }
  }
  function reset() { state.zoom = { flame: [], inverted: [] }; }

  function facts() {
    const parts = [plural(data.samples, 'sample'), data.seconds.toFixed(1) + ' s'];
    if (data.rate > 0) parts.push('at ' + data.rate + ' Hz');
    if (data.host) parts.push('on ' + data.host);
    if (data.start > 0) parts.push(new Date(data.start * 1000).toISOString().replace('T', ' ').slice(0, 19) + ' UTC');
    for (const name of ['torn', 'missed', 'late', 'errors']) if (data[name]) parts.push(data[name].toLocaleString('en') + ' ' + name);
    if (!data.complete) parts.push('the recording was cut off');
    return parts.join(' · ') + ' · scry ' + data.version;
  }

  function show(name) {
    state.view = name;
    draw();
  }

  function draw() {
    root.dataset.ready = 'no';
    for (const tab of tabs) {
      const chosen = tab.id === 'tab-' + state.view;
      tab.setAttribute('aria-selected', chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
    main.replaceChildren();
    main.setAttribute('aria-label', views[state.view]);
    if (!data.totals.length) main.append(element('p', { class: 'none' }, 'No samples: no Python code was running. Record with --idle to see what threads wait for.'));
    else ({ flame: () => drawFlame(false), inverted: () => drawFlame(true), time: drawTime, functions: () => drawTable(false), lines: () => drawTable(true), source: drawSource })[state.view]();
    root.dataset.ready = 'yes';
  }

  /* ---- flame graphs ---- */

  function zoomed(top, path) {
    let node = top;
    for (const key of path) {
      const child = node.children.get(key);
      if (!child) break;
      node = child;
    }
    return node;
  }

  function pathOf(node) {
    const path = [];
    for (let n = node; n.parent; n = n.parent) path.unshift(n.key);
    return path;
  }

  function layOut(top, focus, width) {
    const boxes = [], chain = [];
    for (let n = focus; n; n = n.parent) chain.unshift(n);
    chain.forEach((node, row) => boxes.push({ node, x: 0, w: width, row, faded: node !== focus }));
    const pending = [[focus, 0, chain.length]];
    while (pending.length && boxes.length < BOXES_MAX) {
      const [node, x, row] = pending.pop();
      let at = x;
      const children = [...node.children.values()].sort((a, b) => b.total - a.total);
      for (const child of children) {
        const w = width * child.total / focus.total;
        if (w < 1 || row > ROWS_MAX) break;
        boxes.push({ node: child, x: at, w, row });
        pending.push([child, at, row + 1]);
        at += w;
      }
    }
    return boxes;
  }

  function tell(top, node) {
    const label = node.parent ? labelOf(node.key) : 'all';
    return label + ': ' + amount(node.total) + ', ' + percent(node.total, top.total) + (node.self ? ', ' + amount(node.self) + ' by itself' : '');
  }

  function drawFlame(inverted) {
    const self = selfOfStacks(), top = inverted ? backward(self) : forward(self);
    const zoom = inverted ? 'inverted' : 'flame';
    const says = element('span', { class: 'says', role: 'status' });
    const focus = zoomed(top, state.zoom[zoom]);
    const bar = element('div', { class: 'bar' });
    if (focus !== top) bar.append(element('button', { type: 'button', id: 'back', onclick: () => { state.zoom[zoom] = []; draw(); } }, 'All (Esc)'));
    bar.append(says);
    const flame = element('div', { class: 'flame', id: 'flame' });
    main.append(bar, flame);
    const width = flame.clientWidth || 1000, boxes = layOut(top, focus, width);
    let rows = 0, hits = 0;
    const drawn = [];
    for (const box of boxes) {
      const { node } = box, text = node.parent ? labelOf(node.key) : 'all';
      const hit = node.parent && state.search && state.search.test(text);
      const e = element('div', {
        class: 'box ' + (node.parent ? 'o' + originOf(node.key) : 'all') + (box.faded ? ' faded' : '') + (hit ? ' hit' : ''),
        tabindex: drawn.length ? '-1' : '0', role: 'button', title: tell(top, node),
      });
      if (box.w > 24) e.textContent = text;
      e.style.left = box.x + 'px';
      e.style.top = box.row * ROW + 'px';
      e.style.width = box.w + 'px';
      e.addEventListener('click', () => { state.zoom[zoom] = pathOf(node); draw(); focusOn(text); });
      e.addEventListener('focus', () => { says.textContent = tell(top, node); });
      e.addEventListener('mouseenter', () => { says.textContent = tell(top, node); });
      box.element = e;
      drawn.push(box);
      flame.append(e);
      rows = Math.max(rows, box.row + 1);
      hits += hit ? 1 : 0;
    }
    flame.style.height = rows * ROW + 'px';
    flame.addEventListener('keydown', (event) => walk(event, drawn, zoom));
    says.textContent = state.search ? plural(hits, 'box') .replace('boxs', 'boxes') + ' found' : 'Click a box, or move with the arrow keys and press Enter, to see only it.';
    main.append(element('div', { class: 'legend' }, ...ORIGINS.slice(0, 4).map((text, i) => {
      const patch = element('i', { class: 'box-colour' });
      patch.style.background = 'var(--' + 'upsc'[i] + ')';
      return element('span', {}, patch, text);
    })));
  }

  function focusOn(text) {
    const all = [...main.querySelectorAll('.box')];
    const wanted = all.filter((e) => !e.classList.contains('faded')).find((e) => e.title.startsWith(text + ': '));
    (wanted || all[0] || main).focus();
  }

  /* Arrow keys go to the box above, below or beside. */
  function walk(event, boxes, zoom) {
    const at = boxes.find((box) => box.element === document.activeElement);
    if (!at) return;
    const middle = at.x + at.w / 2;
    const beside = (step) => boxes.filter((b) => b.row === at.row && Math.sign(b.x - at.x) === step).sort((a, b) => step * (a.x - b.x))[0];
    const above = (step) => boxes.filter((b) => b.row === at.row + step && (step < 0 ? b.x <= middle && middle <= b.x + b.w : b.x >= at.x - .5 && b.x < at.x + at.w))[0];
    const to = { ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => above(-1), ArrowDown: () => above(1) }[event.key];
    if (to) {
      event.preventDefault();
      const next = to();
      if (next) { at.element.tabIndex = -1; next.element.tabIndex = 0; next.element.focus(); }
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      state.zoom[zoom] = pathOf(at.node);
      draw();
      focusOn(at.node.parent ? labelOf(at.node.key) : 'all');
    }
  }

  /* ---- the time line ---- */

  const COLOURS = ['u', 'p', 's', 'c', 'r'];
  function drawTime() {
    const says = element('span', { class: 'says', role: 'status' }, 'What each thread did, by the function it was in; the height is how much of the time it was seen.');
    main.append(element('div', { class: 'bar' }, says));
    data.tracks.forEach((track, number) => {
      if (state.track >= 0 && state.track !== number) return;
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      svg.setAttribute('viewBox', '0 0 ' + data.steps + ' 100');
      svg.setAttribute('preserveAspectRatio', 'none');
      svg.setAttribute('tabindex', '0');
      svg.setAttribute('role', 'img');
      svg.setAttribute('aria-label', track.process + ', ' + track.thread);
      const at = new Map();
      for (let i = 0; i < track.line.length; i += 3) {
        const [step, stack, seen] = track.line.slice(i, i + 3), frame = frames[data.frame[stack]];
        const bar = document.createElementNS(svg.namespaceURI, 'rect');
        const height = Math.max(4, Math.min(100, seen));
        for (const [name, value] of Object.entries({ x: step, y: 100 - height, width: 1.05, height })) bar.setAttribute(name, value);
        bar.style.fill = 'var(--' + COLOURS[frame.origin] + ')';
        if (state.search && state.search.test(frame.name + ' (' + frame.file + ')')) bar.style.fill = 'var(--mark)';
        at.set(step, stack);
        svg.append(bar);
      }
      let cursor = 0;
      const tellAt = (step) => {
        cursor = Math.max(0, Math.min(data.steps - 1, step));
        const stack = at.get(cursor), when = (cursor * data.end / data.steps).toFixed(2) + ' s: ';
        const f = stack === undefined ? null : frames[data.frame[stack]];
        says.textContent = when + (f ? f.name + ' (' + f.file + ':' + f.line + ')' : 'not running');
      };
      svg.addEventListener('mousemove', (event) => {
        const box = svg.getBoundingClientRect();
        tellAt(Math.floor((event.clientX - box.left) / box.width * data.steps));
      });
      svg.addEventListener('keydown', (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -100, PageDown: 100 }[event.key];
        if (step) { event.preventDefault(); tellAt(cursor + step); }
      });
      main.append(element('div', { class: 'track' }, element('span', {}, track.thread + ' · ' + track.process), svg));
    });
    main.append(element('div', { class: 'axis' }, element('span', {}, '0 s'), element('span', {}, data.end.toFixed(2) + ' s')));
  }

  /* ---- tables ---- */

  /* Own and total of each function or line; one that is on a stack several times counts once. */
  function figures(byLine) {
    const self = selfOfStacks(), rows = new Map();
    let all = 0;
    for (let i = 1; i < self.length; i++) {
      if (!self[i]) continue;
      all += self[i];
      const seen = new Set();
      for (let s = i; s > 0; s = data.parent[s]) {
        const key = byLine ? data.frame[s] : functionOf[data.frame[s]];
        if (seen.has(key)) continue;
        seen.add(key);
        const row = rows.get(key) || { key, own: 0, total: 0 };
        rows.set(key, row);
        row.total += self[i];
        if (s === i) row.own += self[i];
      }
    }
    return { rows: [...rows.values()], all };
  }

  function drawTable(byLine) {
    const { rows, all } = figures(byLine);
    const name = (row) => {
      const f = byLine ? frames[row.key] : functions[row.key];
      return f.name + ' (' + f.file + (byLine && f.line ? ':' + f.line : '') + ')';
    };
    const sort = state.sort[state.view] || 'own';
    const shown = rows.filter((row) => !state.search || state.search.test(name(row)));
    shown.sort((a, b) => (sort === 'name' ? name(a).localeCompare(name(b)) : b[sort] - a[sort] || b.own - a.own));
    const head = (key, label, numeric) => element('th', { class: numeric ? 'n' : null, 'aria-sort': sort === key ? (key === 'name' ? 'ascending' : 'descending') : null },
      element('button', { type: 'button', onclick: () => { state.sort[state.view] = key; draw(); } }, label + (sort === key ? ' ▾' : '')));
    const body = element('tbody');
    for (const row of shown.slice(0, 2000)) {
      const f = byLine ? frames[row.key] : functions[row.key];
      const go = () => { state.file = f.path; state.lineWanted = byLine ? f.line : f.first; show('source'); };
      body.append(element('tr', { tabindex: '0', onclick: go, onkeydown: (event) => { if (event.key === 'Enter') go(); } },
        element('td', { class: 'n' }, percent(row.own, all)), element('td', { class: 'n' }, percent(row.total, all)),
        element('td', { class: 'n' }, timed ? (row.own / 1e6).toFixed(3) : row.own.toLocaleString('en')),
        element('td', { class: 'n' }, timed ? (row.total / 1e6).toFixed(3) : row.total.toLocaleString('en')),
        element('td', {}, name(row))));
    }
    const unit = timed ? 's' : 'samples';
    main.append(element('div', { class: 'bar' }, plural(shown.length, byLine ? 'line' : 'function') + (shown.length > 2000 ? ', the first 2,000 shown' : '') + '. Enter shows the source.'),
      element('table', { id: 'table' }, element('thead', {}, element('tr', {}, head('own', 'Own %', true), head('total', 'Total %', true),
        head('own', 'Own ' + unit, true), head('total', 'Total ' + unit, true), head('name', byLine ? 'Line' : 'Function'))), body));
  }

  /* ---- source ---- */

  function drawSource() {
    const { rows, all } = figures(true), files = new Map();
    for (const row of rows) {
      const f = frames[row.key];
      if (!files.has(f.path)) files.set(f.path, { own: 0, lines: new Map() });
      const file = files.get(f.path), line = file.lines.get(f.line) || { own: 0, total: 0 };
      line.own += row.own;
      line.total += row.total;
      file.own += row.own;
      file.lines.set(f.line, line);
    }
    const order = [...files.keys()].sort((a, b) => files.get(b).own - files.get(a).own)
      .filter((path) => !state.search || state.search.test(data.files[path][0]));
    if (!files.has(state.file)) { state.file = order[0]; state.lineWanted = 0; }
    const list = element('ul', { 'aria-label': 'Files' }, ...order.slice(0, 500).map((path) => element('li', {}, element('button', {
      type: 'button', 'aria-current': path === state.file, onclick: () => { state.file = path; state.lineWanted = 0; draw(); },
    }, percent(files.get(path).own, all) + ' ' + (data.files[path][0] || 'no file')))));
    const code = element('div', { class: 'code', id: 'code', tabindex: '0' });
    main.append(element('div', { class: 'source' }, list, code));
    const chosen = files.get(state.file);
    if (chosen) drawCode(code, chosen, data.files[state.file], all);
  }

  function drawCode(code, file, [path, text], all) {
    const most = Math.max(...[...file.lines.values()].map((l) => l.total), 1);
    let numbers = [...file.lines.keys()].filter((n) => n > 0).sort((a, b) => a - b), content = null;
    if (text !== null) {
      content = text.split('\n');
      numbers = content.map((_, i) => i + 1);
    } else {
      code.append(element('p', { class: 'none' }, (path || 'This code') + ' could not be read where the report was made; only line numbers are known.'));
    }
    let hottest = null;
    for (const n of numbers) {
      const cost = file.lines.get(n);
      const row = element('div', { 'data-line': n }, element('b', {}, cost ? percent(cost.own, all) : ''), element('b', {}, cost ? percent(cost.total, all) : ''),
        element('u', {}, String(n)), element('span', {}, content ? content[n - 1] : ''));
      if (cost) {
        row.style.background = 'rgba(var(--hot), ' + (0.08 + 0.5 * cost.total / most).toFixed(3) + ')';
        row.title = 'by itself ' + amount(cost.own) + ', with what it calls ' + amount(cost.total);
        if (!hottest || cost.own > hottest.own) hottest = { own: cost.own, row };
      }
      if (n === state.lineWanted) hottest = { own: Infinity, row };
      code.append(row);
    }
    if (hottest) code.scrollTop = Math.max(0, hottest.row.offsetTop - code.offsetTop - code.clientHeight / 3);
  }

  /* ---- keys ---- */

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === search;
    if (event.key === 'Escape') {
      if (typing && search.value) { search.value = ''; setSearch(''); } else reset();
      search.blur();
      draw();
    } else if (typing || event.target === chooser) {
      return;
    } else if (event.key === '/') {
      event.preventDefault();
      search.focus();
    } else if (event.key === 'd') {
      light.click();
    } else if (event.key >= '1' && event.key <= String(tabs.length)) {
      tabs[Number(event.key) - 1].click();
    } else if (event.target.getAttribute && event.target.getAttribute('role') === 'tab' && ['ArrowLeft', 'ArrowRight'].includes(event.key)) {
      const at = tabs.indexOf(event.target) + (event.key === 'ArrowRight' ? 1 : tabs.length - 1);
      tabs[at % tabs.length].focus();
      tabs[at % tabs.length].click();
    }
  });

  document.title = 'scry · ' + (data.program || 'report');
  if (matchMedia('(prefers-color-scheme: dark)').matches) root.classList.add('dark');
  document.body.append(
    element('header', {}, element('h1', {}, data.program || 'no process'), element('p', { class: 'facts' }, facts())),
    element('nav', {}, element('div', { role: 'tablist', 'aria-label': 'Views' }, ...tabs),
      element('div', { class: 'tools' }, search, chooser, element('label', {}, lines, ' by line'), light)),
    main);
  let width = 0;
  new ResizeObserver(() => {
    if (width === innerWidth) return;
    width = innerWidth;
    if (state.view === 'flame' || state.view === 'inverted') draw();
  }).observe(document.body);
  draw();
})();
