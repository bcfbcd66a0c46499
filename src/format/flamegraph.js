/* Zoom, search and keyboard for the flame graph. All it knows it reads from the boxes in the document; text of
 * the profiled program is only ever handled as text (textContent), never as markup or code. */
(function () {
  'use strict';
  const SVG = 'http://www.w3.org/2000/svg', XHTML = 'http://www.w3.org/1999/xhtml', FG = 'urn:scry:flamegraph';
  const MARGIN = 10, PADDING = 3, BARE_BELOW = 3, GLIDE_MS = 220;
  const svg = document.currentScript.closest('svg');
  const header = svg.querySelector('#header');
  const title = svg.querySelector('#title'), details = svg.querySelector('#details');
  const legend = svg.querySelector('#legend'), footer = svg.querySelector('#footer');
  const calm = window.matchMedia && matchMedia('(prefers-reduced-motion: reduce)').matches;

  /* ---- the boxes, in document order: every box after the one it is called from ---- */

  const wide = (c) => c.codePointAt(0) >= 0x1100; /* takes two columns in a monospaced font */
  const columns = (text) => {
    let n = 0;
    for (const c of text) n += wide(c) ? 2 : 1;
    return n;
  };

  /* What follows the label in a title: the figures of one recording, or of two compared. */
  const COUNT = / \((?:(?:[\d,]+ samples?|[\d.]+ s of CPU), [\d.]+%|(before [\d.]+%, after [\d.]+%, [^()]*))\)$/;

  function readBox(g, index) {
    const rect = g.querySelector('rect');
    const number = (name) => Number(rect.getAttributeNS(FG, name));
    const whole = g.querySelector('title').textContent, note = COUNT.exec(whole);
    const label = whole.replace(COUNT, '');
    const plain = /^[rx]/.test(rect.getAttribute('class'));
    const cut = plain ? -1 : label.lastIndexOf(' (');
    const box = {
      g, rect, index, label, compared: note && note[1], text: g.querySelector('text'), y: Number(rect.getAttribute('y')),
      x: number('x'), w: number('w'), seconds: number('t'), own: number('w'),
      name: cut < 0 ? label : label.slice(0, cut), where: cut < 0 ? '' : label.slice(cut),
      parent: null, children: [], shown: true, chars: -1, placed: [-1, -1],
    };
    box.columns = columns(label);
    box.nameColumns = columns(box.name);
    /* What is shown of a qualified name where it does not fit: its last part. */
    const dot = cut < 0 ? -1 : box.name.lastIndexOf('.');
    box.tail = dot + 1 < box.name.length ? box.name.slice(dot + 1) : box.name;
    g.dataset.index = index;
    g.setAttribute('role', 'button');
    return box;
  }

  function link(boxes) {
    const path = [];
    for (const box of boxes) {
      while (path.length && path[path.length - 1].y >= box.y) path.pop();
      box.parent = path[path.length - 1] || null;
      if (box.parent) {
        box.parent.children.push(box);
        box.parent.own -= box.w;
      }
      path.push(box);
    }
  }

  /* A page with two recordings compared has a view of each; one is shown, and is what these stand for. */
  function readView(element) {
    const view = { frames: element, boxes: Array.from(element.querySelectorAll('g'), readBox),
      total: Number(element.getAttribute('total_samples')), name: element.id.replace(/^frames-?/, '') };
    link(view.boxes);
    return view;
  }

  const unit = svg.querySelector('.frames').getAttribute('unit'); /* none: samples */
  const timed = unit ? (unit === 'us' ? ' of CPU' : '') : null;
  const views = Array.from(svg.querySelectorAll('.frames'), readView);
  const first = views.find((v) => v.frames.style.display !== 'none');
  let { frames, boxes, total, name: shown } = first, root = boxes[0];

  /* ---- layout: the samples [from, to) fill the width; what lies outside is not shown ---- */

  let width = 0, charWidth = 7.25;
  let below = false, crowded = false; /* the controls are in the second line; they leave no room for the legend */
  const view = { from: 0, to: total };
  let zoomed = root, pattern = '', glide = 0;

  function beginning(text, room) {
    if (columns(text) <= room) return text;
    let n = 0, kept = '';
    for (const c of text) {
      n += wide(c) ? 2 : 1;
      if (n > room - 1) break;
      kept += c;
    }
    return kept + '\u2026';
  }

  function setLabel(box, pixels) {
    const room = Math.max(0, Math.floor((pixels - 2 * PADDING) / charWidth));
    const chars = room < 3 ? 0 : Math.min(room, box.columns);
    if (chars === box.chars) return;
    box.chars = chars;
    const text = box.text;
    if (!chars) {
      text.textContent = '';
    } else if (chars >= box.columns) {
      text.textContent = box.name;
      if (box.where) {
        const where = document.createElementNS(SVG, 'tspan');
        where.textContent = box.where;
        text.append(where);
      }
    } else {
      text.textContent = box.nameColumns <= chars ? box.name : beginning(box.tail, chars);
    }
  }

  function show(box, yes) {
    if (box.shown === yes) return;
    box.shown = yes;
    box.g.style.display = yes ? '' : 'none';
  }

  function place(box) {
    const span = view.to - view.from;
    const left = Math.max(box.x, view.from), right = Math.min(box.x + box.w, view.to);
    const pixels = (right - left) / span * width;
    show(box, right > left && pixels >= 0.1);
    if (!box.shown) return;
    const x = 100 * (left - view.from) / span, w = 100 * (right - left) / span;
    if (x !== box.placed[0] || w !== box.placed[1]) {
      box.placed = [x, w];
      box.rect.setAttribute('x', x + '%');
      box.rect.setAttribute('width', w + '%');
      box.text.setAttribute('x', x + '%');
    }
    box.rect.classList.toggle('n', pixels < BARE_BELOW);
    setLabel(box, pixels);
  }

  function draw() {
    for (const box of boxes) place(box);
  }

  function glideTo(from, to) {
    const start = { ...view }, begun = performance.now(), mine = ++glide;
    const step = (now) => {
      if (mine !== glide) return;
      const t = calm || document.hidden ? 1 : Math.min(1, Math.max(0, now - begun) / GLIDE_MS);
      const eased = t * t * (3 - 2 * t);
      view.from = t === 1 ? from : start.from + (from - start.from) * eased;
      view.to = t === 1 ? to : start.to + (to - start.to) * eased;
      draw();
      if (t < 1) requestAnimationFrame(step);
      else svg.dataset.ready = 'yes';
    };
    svg.dataset.ready = 'no';
    if (calm || document.hidden) step(begun);
    else requestAnimationFrame(step);
  }

  /* ---- the state, and the address that brings it back ---- */

  function zoom(box) {
    zoomed = box;
    for (const b of boxes) b.g.classList.remove('faded');
    for (let b = box.parent; b; b = b.parent) b.g.classList.add('faded');
    reset.style.display = box === root ? 'none' : '';
    focusable(box);
    arrange();
    glideTo(box.x, box.x + box.w);
  }

  function address() {
    const parts = [];
    if (shown !== first.name) parts.push('widths=' + shown);
    if (zoomed !== root) parts.push('frame=' + zoomed.index);
    if (pattern) parts.push('search=' + encodeURIComponent(pattern));
    return '#' + parts.join('&');
  }

  function remember(push) {
    try {
      if (address() === (location.hash || '#')) return;
      if (push) history.pushState(null, '', address());
      else history.replaceState(null, '', address());
    } catch (_) { /* a sandboxed page has no history: the graph works all the same */ }
  }

  function restore() {
    const state = new URLSearchParams(location.hash.slice(1).replace(/\+/g, '%2B'));
    const index = Number(state.get('frame') || 0);
    use(views.find((v) => v.name === state.get('widths')) || first);
    input.value = state.get('search') || '';
    search(input.value);
    const box = boxes[index] || root;
    if (box !== zoomed) zoom(box);
  }

  /* ---- the other recording ---- */

  /* The box in `to` that is called as `box` is; as near to it as there is. */
  function sameBox(box, to) {
    const path = [];
    for (let b = box; b.parent; b = b.parent) path.unshift(b.label);
    let found = to.boxes[0];
    for (const label of path) {
      const next = found.children.find((child) => child.label === label);
      if (!next) break;
      found = next;
    }
    return found;
  }

  function use(to) {
    if (to.frames === frames) return;
    const box = sameBox(zoomed, to);
    const grown = Number(to.frames.getAttribute('height')) - Number(frames.getAttribute('height'));
    height += grown;
    footer.setAttribute('y', Number(footer.getAttribute('y')) + grown);
    frames.style.display = 'none';
    to.frames.style.display = '';
    ({ frames, boxes, total, name: shown } = to);
    root = boxes[0];
    zoomed = root;
    reachable.g.removeAttribute('tabindex');
    reachable = root;
    name_other();
    svg.setAttribute('height', height);
    view.from = box.x;
    view.to = box.x + box.w;
    resize();
    search(pattern);
    zoom(box);
  }

  function switchOver() {
    use(views.find((v) => v.frames !== frames));
    arrange();
    remember(true);
  }

  function name_other() {
    if (views.length > 1) other.textContent = shown === 'after' ? 'Widths: after \u00b7 switch to before' : 'Widths: before \u00b7 switch to after';
  }

  /* ---- search ---- */

  /* Capitals in the pattern make it case-sensitive; what is no regular expression is searched as it stands. */
  function compile(text) {
    const flags = /[A-Z]/.test(text.replace(/\\./g, '')) ? 'u' : 'iu';
    try {
      return new RegExp(text, flags);
    } catch (_) {
      return new RegExp(text.replace(/[\\^$.*+?()[\]{}|\/-]/g, '\\$&'), flags.replace('u', ''));
    }
  }

  function search(text) {
    pattern = text;
    const re = text ? compile(text) : null;
    let found = 0, samples = 0, covered = -1;
    for (const box of boxes) {
      const match = re !== null && re.test(box.label);
      box.g.classList.toggle('match', match);
      if (!match) continue;
      found++;
      if (box.x < covered) continue; /* inside a match already counted */
      samples += box.w;
      covered = box.x + box.w;
    }
    frames.classList.toggle('searching', found > 0);
    matched.textContent = re ? 'Matched: ' + percent(samples, total) + ' in ' + grouped(found) + plural(found, ' frame', ' frames') : '';
    arrange();
  }

  /* ---- words ---- */

  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
  const plural = (n, one, many) => (n === 1 ? one : many);
  const percent = (part, whole) => (100 * part / whole).toFixed(2) + '%';
  const seconds = (s) => (s >= 100 ? s.toFixed(0) : s >= 1 ? s.toFixed(2) : s.toFixed(3)) + ' s';

  function describe(box) {
    const count = timed !== null ? seconds(box.seconds) + timed : grouped(box.w) + plural(box.w, ' sample', ' samples');
    const parts = [count, percent(box.w, total)];
    if (timed === null) parts.push(seconds(box.seconds));
    if (box.compared) {
      fit(details, box.label, '  \u00b7  ' + box.compared, width);
      share();
      return;
    }
    if (zoomed !== root && box.x >= zoomed.x && box.x + box.w <= zoomed.x + zoomed.w)
      parts.push(percent(box.w, zoomed.w) + ' of the zoomed frame');
    if (box.children.length) parts.push('self ' + percent(box.own, total));
    fit(details, box.label, '  \u00b7  ' + parts.join(' \u00b7 '), width);
    share();
  }

  function forget() {
    details.textContent = '';
    share();
  }

  /* As much of `text` as leaves room for `end`. */
  function fit(element, text, end, pixels) {
    element.textContent = text + end;
    let length = text.length;
    while (length > 3 && element.getComputedTextLength() > pixels) {
      length = Math.floor(length * 0.9);
      element.textContent = text.slice(0, length) + '\u2026' + end;
    }
  }

  /* ---- controls: made here, because without this script they would do nothing ---- */

  function make(kind, attributes, parent) {
    const element = document.createElementNS(SVG, kind);
    for (const name of Object.keys(attributes)) element.setAttribute(name, attributes[name]);
    parent.append(element);
    return element;
  }

  const reset = make('text', { id: 'unzoom', class: 'button', y: 25, tabindex: 0, role: 'button', 'text-anchor': 'end' }, header);
  reset.textContent = 'Reset zoom';
  reset.style.display = 'none';
  const other = make('text', { id: 'other', class: 'button', y: 25, tabindex: 0, role: 'button', 'text-anchor': 'end' }, header);
  other.style.display = views.length > 1 ? '' : 'none';
  const matched = make('text', { id: 'matched', class: 'button', y: 25, 'text-anchor': 'end' }, header);
  const place_of_input = make('foreignObject', { y: 7, width: 220, height: 28 }, header);
  const input = document.createElementNS(XHTML, 'input');
  input.id = 'search';
  input.type = 'text';
  input.placeholder = 'Search (regular expression)';
  input.setAttribute('aria-label', 'Search frames by regular expression');
  input.spellcheck = false;
  place_of_input.append(input);
  const full_title = title.textContent, legendWidth = legend.getBBox().width;

  /* The controls stand at the right end of the title's line; in a narrow window what the search found and the
   * way back stand below, in place of the legend if need be. */
  function arrange() {
    const full = svg.getBoundingClientRect().width, narrow = full < 900;
    const field = Math.min(220, full / 2 - MARGIN);
    place_of_input.setAttribute('width', field);
    place_of_input.setAttribute('x', full - MARGIN - field);
    let x = full - MARGIN - (narrow ? 0 : field + 12);
    const begin = x;
    for (const control of [matched, reset, other]) {
      control.setAttribute('y', narrow ? 49 : 25);
      control.setAttribute('x', x);
      const there = control.textContent && control.style.display !== 'none';
      x -= there ? control.getComputedTextLength() + 16 : 0;
    }
    fit(title, full_title, '', (narrow ? full - field - 12 - MARGIN : x) - MARGIN);
    below = narrow;
    crowded = narrow && x < begin && legendWidth + MARGIN > x;
    share();
  }

  /* The second line is for the details while there are any. */
  function share() {
    const busy = details.textContent.trim() !== '';
    legend.style.display = busy || crowded ? 'none' : '';
    for (const control of [matched, reset, other]) control.style.visibility = busy && below ? 'hidden' : '';
  }

  /* ---- events ---- */

  const boxOf = (node) => {
    const g = node && node.closest ? node.closest('g[data-index]') : null;
    return g && frames.contains(g) ? boxes[Number(g.dataset.index)] : null;
  };

  let reachable = root;
  function focusable(box) {
    if (box === reachable && box.g.hasAttribute('tabindex')) return; /* or it would lose the focus */
    reachable.g.removeAttribute('tabindex');
    reachable = box;
    box.g.setAttribute('tabindex', '0');
  }

  function choose(box) {
    zoom(box);
    remember(true);
  }

  function resetAll() {
    input.value = '';
    search('');
    if (zoomed !== root) zoom(root);
    remember(true);
  }

  function focus(box) {
    if (!box || !box.shown) return;
    focusable(box);
    box.g.focus();
  }

  function neighbour(box, key) {
    if (key === 'ArrowUp') return box.parent;
    if (key === 'ArrowDown') return box.children.find((child) => child.shown);
    const row = box.parent ? box.parent.children : [box];
    return row[row.indexOf(box) + (key === 'ArrowLeft' ? -1 : 1)];
  }

  function onBoxKey(event, box) {
    if (event.key === 'Enter' || event.key === ' ') choose(box);
    else if (event.key.startsWith('Arrow')) focus(neighbour(box, event.key));
    else return;
    event.preventDefault();
  }

  function onKey(event) {
    const typing = document.activeElement === input;
    if ((event.ctrlKey || event.metaKey) && event.key === 'f' && !typing) {
      event.preventDefault(); /* a second Ctrl-F is the browser's own */
      input.focus();
      input.select();
    } else if (event.key === 'Escape') {
      if (typing) input.blur();
      resetAll();
    } else if (event.key === 'Enter' && event.target === reset) {
      choose(root);
    } else if (event.key === 'Enter' && event.target === other) {
      switchOver();
    } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const box = boxOf(event.target);
      if (box) onBoxKey(event, box);
    }
  }

  function listen(element) {
    element.addEventListener('click', (event) => {
      const box = boxOf(event.target);
      if (box) choose(box);
    });
    element.addEventListener('mouseover', (event) => {
      const box = boxOf(event.target);
      if (box) describe(box);
    });
    element.addEventListener('mouseleave', forget);
    element.addEventListener('focusin', (event) => {
      const box = boxOf(event.target);
      if (box) describe(box);
    });
    element.addEventListener('focusout', forget);
  }

  for (const v of views) listen(v.frames);
  other.addEventListener('click', switchOver);
  reset.addEventListener('click', () => choose(root));
  input.addEventListener('input', () => {
    search(input.value);
    remember(false);
  });
  document.addEventListener('keydown', onKey);
  window.addEventListener('hashchange', restore);
  window.addEventListener('popstate', restore);
  window.addEventListener('resize', resize);
  /* The header stays in sight when a deep graph is scrolled. */
  window.addEventListener('scroll', () => {
    const hidden = Math.max(0, -svg.getBoundingClientRect().top);
    header.setAttribute('transform', 'translate(0,' + hidden + ')');
  }, { passive: true });

  /* ---- from a fixed picture to one as wide as the window ---- */

  function measure() {
    const probe = make('text', {}, frames);
    probe.textContent = 'M'.repeat(50);
    charWidth = probe.getComputedTextLength() / 50 || charWidth;
    probe.remove();
  }

  function resize() {
    width = Math.max(100, svg.getBoundingClientRect().width - 2 * MARGIN);
    frames.setAttribute('width', width);
    if (svg === document.documentElement) svg.setAttribute('height', Math.max(height, window.innerHeight));
    for (const box of boxes) box.chars = -1;
    draw();
    fit(footer, footer_text, '', width);
    arrange();
  }

  const footer_text = footer.textContent;
  let height = Number(svg.getAttribute('height'));
  svg.removeAttribute('viewBox');
  svg.setAttribute('width', '100%');
  for (const v of views) for (const box of v.boxes) box.text.setAttribute('dx', PADDING);
  name_other();
  measure();
  focusable(root);
  resize();
  restore();
  svg.dataset.ready = svg.dataset.ready || 'yes';
})();
