/* Recordings under way. Their event streams stay open while one looks at other views: the server takes a closed stream
 * for somebody who went away, and ends the recording. A browser has only a handful of connections to one server, so
 * only a few are followed by stream, and the others asked about now and then. */
import { useEffect, useState } from 'preact/hooks';

import { api, type RecordingInfo } from './api.ts';

interface Job {
  info: RecordingInfo;
  seen: number; /* performance.now() when info came */
  stop: (() => void) | null; /* null: not followed any more */
}

const STREAMS = 2;
const POLL_MS = 1500;

const jobs = new Map<string, Job>();
const listeners = new Set<() => void>();
const tell = (): void => { for (const listener of listeners) listener(); };
let streams = 0;

export const isOver = (info: RecordingInfo): boolean => info.state !== 'queued' && info.state !== 'recording';
export const mayStream = (): boolean => streams < STREAMS;

function update(info: RecordingInfo): void {
  const job = jobs.get(info.id);
  if (!job) return;
  job.info = info;
  job.seen = performance.now();
  if (isOver(info)) {
    job.stop?.();
    job.stop = null;
  }
  tell();
}

function byPolling(id: string): () => void {
  const timer = setInterval(() => { api.recording(id).then(update, () => undefined); }, POLL_MS);
  return () => clearInterval(timer);
}

function byStream(id: string): () => void {
  const source = new EventSource(api.eventsAddress(id));
  streams++;
  for (const name of ['progress', 'end']) {
    source.addEventListener(name, (event) => update(JSON.parse((event as MessageEvent<string>).data) as RecordingInfo));
  }
  /* Refused for good: the recording itself says what became of it, or is gone. */
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) api.recording(id).then(update, () => forget(id));
  };
  return () => {
    streams--;
    source.close();
  };
}

export function follow(info: RecordingInfo): void {
  const known = jobs.get(info.id);
  if (known?.stop) {
    update(info);
    return;
  }
  const stop = isOver(info) ? null : mayStream() ? byStream(info.id) : byPolling(info.id);
  jobs.set(info.id, { info, seen: performance.now(), stop });
  tell();
}

export function forget(id: string): void {
  jobs.get(id)?.stop?.();
  jobs.delete(id);
  tell();
}

function useJobs(): void {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = (): void => redraw((n) => n + 1);
    listeners.add(listener);
    return () => { listeners.delete(listener); };
  }, []);
}

export function useJob(id: string): { info: RecordingInfo; seen: number } | null {
  useJobs();
  return jobs.get(id) ?? null;
}

export function useRunning(): RecordingInfo[] {
  useJobs();
  return [...jobs.values()].map((job) => job.info).filter((info) => !isOver(info));
}
