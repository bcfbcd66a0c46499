/* Answers that no real machine here can give: a cluster of a thousand nodes, nodes that are down, pods, names that
 * try to be markup. Put in the place of the server's by the tests that need them. */

export const HOSTILE = '</span><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';

const id = (i) => i.toString(16).padStart(16, '0');

export function node(i, change = {}) {
  return {
    id: id(i), name: `worker-${i}`, address: `10.0.0.${i % 250}:8265`, self: i === 0, state: 'up', error: null, version: '0.1.0',
    cpus: 8, load: 1.5 + (i % 5), memory_total: 34359738368, memory_available: 21474836480 - (i % 7) * 1e9, processes: 0,
    last_seen: null, rtt_ms: 1, sources: ['dns'], ray_node_id: null, ips: [], ...change,
  };
}

const TASKS = ['train_step', 'load_shard', 'Tokenizer.encode', 'ParameterServer.push', 'evaluate', 'IDLE'];
const WAITS = ['futex', 'socket 10.0.0.7:6379', 'epoll_wait', null, 'clock_nanosleep', null];

export function process(i, on, change = {}) {
  const task = TASKS[i % TASKS.length];
  return {
    node: on.id, node_name: on.name, pid: 4000 + i, ns_pid: 17 + i, parent: 1, started: '2026-11-16T02:00:00.000Z', python: '3.11.7',
    command: `ray::${task}`, title: `ray::${task}`, group: task, kind: 'ray', executable: '/usr/bin/python3.11', user: 'ray', uid: 1000,
    threads: 3 + (i % 40), state: WAITS[i % 6] ? 'sleeping' : 'running', wait: WAITS[i % 6], cpu_percent: ((i * 7919) % 1000) / 10,
    cpu_seconds: 10, rss: 1e8 + ((i * 104729) % 1000) * 1e6, container: 'containerd 1a2b3c4d5e6f',
    pod: { name: `raycluster-worker-${i % 97}`, namespace: 'ml', uid: 'x', container: 'ray-worker' }, can_attach: true, reason: 'ok',
    why: null, remedy: null, recording: null, ...change,
  };
}

/* A cluster with so many nodes and processes; one node is down, one slow. */
export function cluster(nodes, processes) {
  const list = Array.from({ length: nodes }, (_, i) => node(i));
  if (nodes > 2) Object.assign(list[1], { state: 'down', error: 'no answer from 10.0.0.1:8265: connection refused' });
  if (nodes > 3) Object.assign(list[2], { state: 'slow', error: 'it did not answer within 1.5 s' });
  const able = list.filter((n) => n.state === 'up');
  return { nodes: list, processes: Array.from({ length: processes }, (_, i) => process(i, able[i % able.length])) };
}

/* Makes a page believe in that cluster. */
export async function pretend(page, { nodes, processes }) {
  const json = (body) => ({ status: 200, contentType: 'application/json', body: JSON.stringify(body) });
  const answers = { nodes: json({ nodes }), processes: json({ processes, total: processes.length, nodes: [] }) };
  await page.route(/\/api\/v1\/nodes(\?|$)/, (route) => route.fulfill(answers.nodes));
  await page.route(/\/api\/v1\/processes(\?|$)/, (route) => route.fulfill(answers.processes));
}
