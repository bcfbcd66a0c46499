/* What the server offers (docs/api.md, /api/v1/openapi.json), typed, and nothing else. Addresses are relative, so that
 * the page also works behind a proxy that puts a prefix before them. */
import type { TreeAnswer } from './model/profile.ts';

export interface ApiErrorBody {
  code: string;
  message: string;
  hint: string;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;

  constructor(status: number, body: Partial<ApiErrorBody>) {
    super(body.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = body.code ?? '';
    this.hint = body.hint ?? '';
  }
}

export type NodeState = 'up' | 'slow' | 'down';
export interface NodeInfo {
  id: string;
  name: string;
  address: string;
  self: boolean;
  state: NodeState;
  error: string | null;
  version: string | null;
  cpus: number;
  load: number;
  memory_total: number;
  memory_available: number;
  processes: number;
  sources: string[];
}

export interface Pod {
  name: string;
  namespace: string;
  uid: string;
  container: string;
}

export interface ProcessInfo {
  node: string;
  node_name: string;
  pid: number;
  parent: number;
  started: string;
  python: string;
  command: string;
  title: string;
  group: string;
  kind: 'python' | 'ray' | 'dask';
  user: string;
  threads: number;
  state: string;
  wait: string | null;
  cpu_percent: number;
  rss: number;
  container: string | null;
  pod: Pod | null;
  can_attach: boolean;
  why: string | null;
  remedy: string | null;
  recording: string | null;
}

export interface ProcessList {
  processes: ProcessInfo[];
  total: number;
  nodes: { id: string; name: string; state: NodeState; error: string | null }[];
}

export interface DumpFrame {
  name: string;
  qualname: string | null;
  filename: string;
  short_filename: string | null;
  line: number;
  module: string | null;
  locals: { name: string; repr: string | null }[] | null;
}

export interface DumpThread {
  pid: number;
  thread_id: number;
  thread_name: string | null;
  os_thread_id: number | null;
  active: boolean;
  owns_gil: boolean;
  in_gc: boolean;
  torn: boolean;
  frames: DumpFrame[];
  wait: string | null;
}

export interface ThreadList {
  node: string;
  node_name: string;
  pid: number;
  taken: string;
  threads: DumpThread[];
}

export type JobState = 'queued' | 'recording' | 'done' | 'failed' | 'cancelled';
export type Mode = 'wall' | 'cpu' | 'gil';
export interface Target {
  node: string;
  node_name: string;
  pid: number;
  command: string;
  python: string;
  state: JobState;
  samples: number;
  error: ApiErrorBody | null;
}

export interface RecordingInfo {
  id: string;
  name: string;
  state: JobState;
  created: string;
  started: string | null;
  ended: string | null;
  duration: number;
  rate: number;
  mode: Mode;
  idle: boolean;
  native: boolean;
  subprocesses: boolean;
  merge: boolean;
  pinned: boolean;
  targets: Target[];
  elapsed: number;
  samples: number;
  size: number;
  warnings: string[];
  error: ApiErrorBody | null;
}

export interface RecordingRequest {
  targets: { node: string; pid: number }[];
  duration: number;
  rate: number;
  mode: Mode;
  idle: boolean;
  native: boolean;
  subprocesses: boolean;
  merge: boolean;
  attached: boolean;
  name?: string;
}

export interface TopFunction {
  name: string;
  file: string;
  line: number;
  own_percent: number;
  total_percent: number;
  own_seconds: number;
  total_seconds: number;
}

export interface Top {
  elapsed: number;
  samples: number;
  missed: number;
  active_percent: number;
  gil_percent: number;
  threads: number;
  processes: number;
  functions: TopFunction[];
  top_threads: {
    pid: number; name: string | null; os_thread_id: number; active_percent: number; gil_percent: number;
    wait: string | null;
  }[];
}

export interface Info {
  version: string;
  node: string;
  hostname: string;
  auth: 'none' | 'token';
  native: boolean;
  formats: { name: string; extension: string; summary: string; content_type: string; binary: boolean }[];
  defaults: { duration: number; rate: number; native: boolean; idle: boolean; subprocesses: boolean };
  limits: { max_duration: number; max_rate: number; max_targets: number };
}

type Query = Record<string, string | number | boolean | undefined>;

const BASE = 'api/v1/';

export function address(path: string, query: Query = {}): string {
  const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
    .map(([key, value]) => `${key}=${encodeURIComponent(typeof value === 'boolean' ? Number(value) : value!)}`);
  return BASE + path + (words.length ? '?' + words.join('&') : '');
}

const at = (...parts: (string | number)[]): string => parts.map((part) => encodeURIComponent(part)).join('/');

/* Told when the server wants a token, so that the page can ask for one. */
let whenUnauthorized = (): void => {};
export const onUnauthorized = (call: () => void): void => { whenUnauthorized = call; };

async function failure(response: Response): Promise<ApiError> {
  let body: Partial<ApiErrorBody> = {};
  try {
    body = ((await response.json()) as { error?: ApiErrorBody }).error ?? {};
  } catch {
    /* not ours: a proxy's page, say */
  }
  return new ApiError(response.status, body);
}

async function ask<T>(url: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(url, { credentials: 'same-origin', ...init });
  if (response.status === 401) whenUnauthorized();
  if (!response.ok) throw await failure(response);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/* Why an event stream was refused; null if it is not, any more. */
export async function refusal(url: string): Promise<ApiError | null> {
  const control = new AbortController();
  const response = await fetch(url, { signal: control.signal });
  if (!response.ok) return failure(response);
  control.abort();
  return null;
}

const send = <T>(method: string, url: string, body?: unknown): Promise<T> => ask<T>(url, {
  method, ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
});

export interface LookOptions {
  native: boolean;
  subprocesses: boolean;
  locals: boolean;
}

export interface TopOptions {
  rate: number;
  native: boolean;
  idle: boolean;
  gil: boolean;
  subprocesses: boolean;
}

export const api = {
  info: () => ask<Info>(address('info')),
  signIn: (token: string) => send<void>('POST', address('session'), { token }),
  nodes: (signal?: AbortSignal) => ask<{ nodes: NodeInfo[] }>(address('nodes'), { signal }),
  processes: (signal?: AbortSignal) => ask<ProcessList>(address('processes'), { signal }),
  process: (node: string, pid: number) => ask<ProcessInfo>(address(`processes/${at(node, pid)}`)),
  threads: (node: string, pid: number, look: LookOptions, signal?: AbortSignal) =>
    ask<ThreadList>(address(`processes/${at(node, pid)}/threads`, { ...look }), { signal }),
  topAddress: (node: string, pid: number, top: TopOptions) => address(`processes/${at(node, pid)}/top`, { ...top }),
  record: (request: RecordingRequest) => send<{ recordings: RecordingInfo[] }>('POST', address('recordings'), request),
  recordings: (q: string, before?: string) =>
    ask<{ recordings: RecordingInfo[]; total: number; next: string | null }>(address('recordings', { q, before })),
  recording: (id: string) => ask<RecordingInfo>(address(`recordings/${at(id)}`)),
  rename: (id: string, name: string) => send<RecordingInfo>('PATCH', address(`recordings/${at(id)}`), { name }),
  pin: (id: string, pinned: boolean) => send<RecordingInfo>('PATCH', address(`recordings/${at(id)}`), { pinned }),
  remove: (id: string) => send<void>('DELETE', address(`recordings/${at(id)}`)),
  cancel: (id: string) => send<RecordingInfo>('POST', address(`recordings/${at(id)}/cancel`)),
  eventsAddress: (id: string) => address(`recordings/${at(id)}/events`),
  tree: (id: string, signal?: AbortSignal) => ask<TreeAnswer>(
    address(`recordings/${at(id)}/tree`, { nodes: 1, processes: 1, threads: 1, lines: 'exact' }), { signal }),
  resultAddress: (id: string, format: string, query: Query = {}) =>
    address(`recordings/${at(id)}/result`, { format, ...query }),
  diffAddress: (before: string, after: string, format: string) => address('diff', { before, after, format, download: 1 }),
};
