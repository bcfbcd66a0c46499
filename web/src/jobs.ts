/* Recordings under way. Their event streams stay open while one looks at other views: the server takes a closed stream
 * for somebody who went away, and ends the recording. */
import { useEffect, useState } from 'preact/hooks';

import { api, type RecordingInfo } from './api.ts';

interface Job {
  info: RecordingInfo;
  seen: number; /* performance.now() when info came */
  stream: EventSource | null;
}

const jobs = new Map<string, Job>();
const listeners = new Set<() => void>();
const tell = (): void => { for (const listener of listeners) listener(); };

export const isOver = (info: RecordingInfo): boolean => info.state !== 'queued' && info.state !== 'recording';

function update(id: string, text: string): void {
  const job = jobs.get(id);
  if (!job) return;
  try {
    job.info = JSON.parse(text) as RecordingInfo;
  } catch {
    return; /* cut off in the middle; the next one says it again */
  }
  job.seen = performance.now();
  if (isOver(job.info)) {
    job.stream?.close();
    job.stream = null;
  }
  tell();
}

export function follow(info: RecordingInfo): void {
  const known = jobs.get(info.id);
  if (known?.stream) return;
  const stream = isOver(info) ? null : new EventSource(api.eventsAddress(info.id));
  jobs.set(info.id, { info, seen: performance.now(), stream });
  for (const name of ['progress', 'end']) {
    stream?.addEventListener(name, (event) => update(info.id, (event as MessageEvent<string>).data));
  }
  tell();
}

export function forget(id: string): void {
  jobs.get(id)?.stream?.close();
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
