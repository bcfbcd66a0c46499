/* What a process does at the moment, as a table that renews itself. */
import { useEffect, useState } from 'preact/hooks';

import { api, refusal, type Top as TopEvent, type TopFunction, type TopOptions } from '../api.ts';
import { count, t } from '../i18n.ts';
import { Bar } from '../parts/Bar.tsx';
import { Loading, Nothing, Problem } from '../parts/Problem.tsx';
import { Toggle } from '../parts/Toggle.tsx';
import { setOption, type Route } from '../router.ts';
import { whole } from '../text.ts';
import { ProcessHead } from './ProcessHead.tsx';

interface Stream {
  top: TopEvent | null;
  lost: boolean;
  ended: string;
  error: Error | null;
}
const nothingYet: Stream = { top: null, lost: false, ended: '', error: null };

/* The stream is closed while paused or out of sight, so that nobody samples a process for nobody. */
function useTop(url: string, running: boolean): Stream {
  const [state, setState] = useState(nothingYet);
  useEffect(() => {
    if (!running) return undefined;
    const source = new EventSource(url);
    setState((s) => ({ ...nothingYet, top: s.top }));
    source.addEventListener('top', (event) => {
      setState({ ...nothingYet, top: JSON.parse((event as MessageEvent<string>).data) as TopEvent });
    });
    source.addEventListener('end', (event) => {
      const { reason = '' } = JSON.parse((event as MessageEvent<string>).data) as { reason?: string };
      source.close();
      setState((s) => ({ ...s, ended: reason || '?' }));
    });
    source.onerror = () => {
      setState((s) => ({ ...s, lost: true }));
      /* A stream that was refused does not say why; the same question asked plainly does. */
      if (source.readyState === EventSource.CLOSED) refusal(url).then((error) => setState((s) => ({ ...s, error })), () => undefined);
    };
    return () => source.close();
  }, [url, running]);
  return state;
}

function useVisible(): boolean {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const changed = (): void => setVisible(!document.hidden);
    document.addEventListener('visibilitychange', changed);
    return () => document.removeEventListener('visibilitychange', changed);
  }, []);
  return visible;
}

function FunctionTable({ functions, byTotal }: { functions: TopFunction[]; byTotal: boolean }) {
  const rows = [...functions].sort((a, b) => (byTotal ? b.total_percent - a.total_percent : b.own_percent - a.own_percent));
  return (
    <table class="functions">
      <thead>
        <tr>
          <th class="number" aria-sort={byTotal ? 'none' : 'descending'}><button type="button" class="sort" onClick={() => setOption('sort', null)}>{t('ownTime')}</button></th>
          <th class="number" aria-sort={byTotal ? 'descending' : 'none'}><button type="button" class="sort" onClick={() => setOption('sort', 'total')}>{t('totalTime')}</button></th>
          <th>{t('functionName')}</th>
          <th>{t('file')}</th>
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, 100).map((f) => (
          <tr key={`${f.name}\0${f.file}\0${f.line}`}>
            <td><Bar share={f.own_percent / 100} text={`${f.own_percent.toFixed(1)} %`} /></td>
            <td><Bar share={f.total_percent / 100} text={`${f.total_percent.toFixed(1)} %`} tone="soft" /></td>
            <td class="frame-name">{f.name}</td>
            <td class="frame-place">{f.file}{f.line > 0 && <b>:{f.line}</b>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Threads({ top }: { top: TopEvent }) {
  return (
    <table class="functions threads">
      <thead><tr><th>{t('threads')}</th><th class="number">{t('activeShare')}</th><th class="number">{t('gilShare')}</th><th>{t('waiting')}</th></tr></thead>
      <tbody>
        {[...top.top_threads].sort((a, b) => b.active_percent - a.active_percent || a.os_thread_id - b.os_thread_id).slice(0, 50).map((thread) => (
          <tr key={`${thread.pid}/${thread.os_thread_id}`}>
            <td><span class="thread-name">{thread.name || thread.os_thread_id}</span> <span class="thread-id">{thread.os_thread_id}</span></td>
            <td><Bar share={thread.active_percent / 100} text={`${thread.active_percent.toFixed(0)} %`} /></td>
            <td><Bar share={thread.gil_percent / 100} text={`${thread.gil_percent.toFixed(0)} %`} tone="soft" /></td>
            <td class="frame-place">{thread.wait ?? ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Top({ route }: { route: Route }) {
  const [node = '', pidText = ''] = route.parts;
  const pid = Number(pidText);
  const [paused, setPaused] = useState(false);
  const [turn, setTurn] = useState(0);
  const visible = useVisible();
  const option = (name: string): boolean => route.options.get(name) === '1';
  const options: TopOptions = {
    rate: 100, native: option('native'), idle: option('idle'), gil: option('gil'), subprocesses: option('subprocesses'),
  };
  const url = api.topAddress(node, pid, options);
  const { top, lost, ended, error } = useTop(turn ? `${url}#${turn}` : url, !paused && visible);
  const toggle = (name: string) => (on: boolean): void => setOption(name, on ? '1' : null);
  return (
    <section class="page">
      <ProcessHead node={node} pid={pid} title={t('liveTop')} />
      <div class="controls">
        <button type="button" class="primary" onClick={() => setPaused(!paused)}>{paused ? t('resume') : t('pause')}</button>
        <Toggle on={options.idle} text={t('idle')} hint={t('idleHint')} onChange={toggle('idle')} />
        <Toggle on={options.gil} text="GIL" hint={t('modeGil')} onChange={toggle('gil')} />
        <Toggle on={options.native} text={t('native')} hint={t('nativeHint')} onChange={toggle('native')} />
        <Toggle on={options.subprocesses} text={t('subprocesses')} hint={t('subprocessesHint')} onChange={toggle('subprocesses')} />
      </div>
      {ended && <p class="notice" role="status">{t('topEnded', { why: ended })} <button type="button" class="link" onClick={() => setTurn(turn + 1)}>{t('reconnect')}</button></p>}
      {error && <Problem error={error} retry={() => setTurn(turn + 1)} />}
      {lost && !ended && !error && <p class="notice" role="status">{t('topLost')}</p>}
      {!top && !ended && !lost && <Loading />}
      {top && (
        <>
          <p class="facts">
            {t('interval', { n: whole(top.samples), s: top.elapsed.toFixed(0) })} · {count('threads', top.threads)}
            {top.missed > 0 && ` · ${t('missedSamples', { n: top.missed })}`}
          </p>
          <div class="meters">
            <span>{t('activeShare')}</span><Bar share={top.active_percent / 100} text={`${top.active_percent.toFixed(0)} %`} />
            <span>{t('gilShare')}</span><Bar share={top.gil_percent / 100} text={`${top.gil_percent.toFixed(0)} %`} tone="soft" />
          </div>
          {top.functions.length ? <FunctionTable functions={top.functions} byTotal={route.options.get('sort') === 'total'} /> : <Nothing title={t('topIdle')} />}
          <Threads top={top} />
        </>
      )}
    </section>
  );
}

