/* One look at a process: its threads, folded where they stand at the same place, those that wait first. */
import { useEffect, useMemo, useState } from 'preact/hooks';

import { api, type DumpFrame, type DumpThread, type LookOptions, type ThreadList } from '../api.ts';
import { useAsked, useKey } from '../hooks.ts';
import { count, t } from '../i18n.ts';
import { asText, foldThreads, waitSummary, type StackGroup } from '../model/stacks.ts';
import { Loading, Problem } from '../parts/Problem.tsx';
import { Toggle } from '../parts/Toggle.tsx';
import { setOption, to, type Route } from '../router.ts';
import { when } from '../text.ts';
import { ProcessHead } from './ProcessHead.tsx';

const SHOWN = 8; /* threads named in a group before "and 40 more" */

function CopyButton({ text }: { text: () => string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text());
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return <button type="button" onClick={() => void copy()}>{copied ? t('copied') : t('copy')}</button>;
}

function ThreadName({ thread, pid }: { thread: DumpThread; pid: number }) {
  return (
    <li>
      <span class="thread-name">{thread.thread_name || `0x${thread.thread_id.toString(16)}`}</span>
      <span class="thread-id">{thread.os_thread_id ?? ''}</span>
      {thread.owns_gil && <span class="chip gil">{t('holdsGil')}</span>}
      {thread.in_gc && <span class="chip busy">{t('collects')}</span>}
      {thread.torn && <span class="chip slow">{t('unsure')}</span>}
      {thread.pid !== pid && <span class="thread-id">{t('inProcess', { pid: thread.pid })}</span>}
    </li>
  );
}

function FrameRow({ frame }: { frame: DumpFrame }) {
  const where = frame.short_filename || frame.filename;
  return (
    <li>
      <span class="frame-name">{frame.qualname || frame.name}</span>
      <span class="frame-place" title={frame.filename}>{where}{frame.line > 0 && <b>:{frame.line}</b>}</span>
      {frame.locals && frame.locals.length > 0 && (
        <dl class="locals">
          {frame.locals.map((local, i) => <div key={i}><dt>{local.name}</dt><dd>{local.repr ?? '?'}</dd></div>)}
        </dl>
      )}
    </li>
  );
}

function GroupCard({ group, pid, open }: { group: StackGroup; pid: number; open: boolean }) {
  const [all, setAll] = useState(false);
  const { threads, frames } = group;
  const runs = threads[0]!.active;
  const state = runs ? t('runs') : group.wait ? t('waitsFor', { what: group.wait }) : t('waitsUnknown');
  return (
    <details class={`stack ${runs ? 'runs' : 'waits'}`} open={open}>
      <summary>
        <span class="stack-count">{count('threads', threads.length)}</span>
        <span class={`chip ${runs ? 'up' : 'wait'}`}>{state}</span>
        <span class="stack-top">{frames[0] ? frames[0].qualname || frames[0].name : t('noFrames')}</span>
      </summary>
      <ul class="stack-threads">
        {threads.slice(0, all ? undefined : SHOWN).map((thread) => <ThreadName key={`${thread.pid} ${thread.thread_id}`} thread={thread} pid={pid} />)}
        {!all && threads.length > SHOWN && (
          <li><button type="button" class="link" onClick={() => setAll(true)}>{t('moreThreads', { n: threads.length - SHOWN })}</button></li>
        )}
      </ul>
      <ol class="frames">{frames.map((frame, i) => <FrameRow key={i} frame={frame} />)}</ol>
    </details>
  );
}

function Looked({ list }: { list: ThreadList }) {
  const groups = useMemo(() => foldThreads(list.threads), [list]);
  const waits = waitSummary(list.threads);
  return (
    <>
      <p class="facts" role="status">
        {count('threads', list.threads.length)} · {t('stacksDistinct', { n: groups.length })} · {t('takenAt', { time: when(list.taken) })}
      </p>
      {waits.length > 0 && (
        <p class="waits">
          {waits.slice(0, 8).map(({ wait, threads }) => <span key={wait} class="chip wait"><b>{threads} ×</b> {wait}</span>)}
        </p>
      )}
      {groups.map((group, i) => <GroupCard key={group.key} group={group} pid={list.pid} open={i < 30} />)}
    </>
  );
}

export function Stack({ route }: { route: Route }) {
  const [node = '', pidText = ''] = route.parts;
  const pid = Number(pidText);
  const option = (name: string): boolean => route.options.get(name) === '1';
  const look: LookOptions = { native: option('native'), subprocesses: option('subprocesses'), locals: option('locals') };
  const key = `${node}/${pid}/${JSON.stringify(look)}`;
  const { value, error, busy, again } = useAsked(key, (signal) => api.threads(node, pid, look, signal));
  const every = option('live');
  useKey('r', again);
  useEffect(() => {
    if (!every || busy) return undefined;
    const timer = setTimeout(again, 2000);
    return () => clearTimeout(timer);
  }, [every, busy, value]);
  const toggle = (name: string) => (on: boolean): void => setOption(name, on ? '1' : null);
  return (
    <section class="page">
      <ProcessHead node={node} pid={pid} title={t('stackTrace')} />
      <div class="controls">
        <button type="button" class="primary" onClick={again} disabled={busy}>{t('refresh')}</button>
        <Toggle on={every} text={t('autoRefresh')} onChange={toggle('live')} />
        <Toggle on={look.native} text={t('native')} hint={t('nativeHint')} onChange={toggle('native')} />
        <Toggle on={look.subprocesses} text={t('subprocesses')} hint={t('subprocessesHint')} onChange={toggle('subprocesses')} />
        <Toggle on={look.locals} text={t('locals')} onChange={toggle('locals')} />
        {value && <CopyButton text={() => asText(foldThreads(value.threads))} />}
        <a class="button" href={to('top', node, pid)}>{t('liveTop')}</a>
      </div>
      {error && <Problem error={error} retry={again} />}
      {!error && !value && <Loading />}
      {!error && value && <Looked list={value} />}
    </section>
  );
}
