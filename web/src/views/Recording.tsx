/* One recording: the countdown while it runs, then what it shows. */
import { useEffect, useState } from 'preact/hooks';

import { api, type Info, type RecordingInfo, type Target } from '../api.ts';
import { asError, useAsked } from '../hooks.ts';
import { t } from '../i18n.ts';
import { follow, isOver, useJob } from '../jobs.ts';
import { readTree } from '../model/profile.ts';
import { Loading, Nothing, Problem } from '../parts/Problem.tsx';
import { setOption, type Route } from '../router.ts';
import { shortCommand, when, whole } from '../text.ts';
import { ProfileView } from './ProfileView.tsx';
import { startRecording } from './RecordDialog.tsx';

export function titleOf(info: RecordingInfo): string {
  if (info.name) return info.name;
  const [first, ...others] = info.targets;
  if (!first) return info.id;
  const name = shortCommand(first.command) || String(first.pid);
  return others.length ? t('processesMore', { name, n: others.length }) : name;
}

/* Seconds since the recording began, going on between the server's reports. */
function useElapsed(info: RecordingInfo, seen: number): number {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (info.state !== 'recording') return undefined;
    const timer = setInterval(() => redraw((n) => n + 1), 100);
    return () => clearInterval(timer);
  }, [info.state]);
  const since = info.state === 'recording' ? (performance.now() - seen) / 1000 : 0;
  return Math.min(info.duration, info.elapsed + since);
}

function Ring({ share }: { share: number }) {
  const around = 2 * Math.PI * 54;
  return (
    <svg class="ring" viewBox="0 0 120 120" aria-hidden="true">
      <circle cx="60" cy="60" r="54" />
      <circle class="ring-done" cx="60" cy="60" r="54" stroke-dasharray={`${around * share} ${around}`} transform="rotate(-90 60 60)" />
    </svg>
  );
}

function TargetList({ targets }: { targets: Target[] }) {
  return (
    <ul class="targets" aria-label={t('targets')}>
      {targets.slice(0, 200).map((target) => (
        <li key={`${target.node}/${target.pid}`}>
          <span class="pid">{target.pid}</span>
          <span class="command">{shortCommand(target.command)}</span>
          <span class="chip plain">{target.node_name}</span>
          <span class={`chip ${target.state === 'failed' ? 'down' : 'plain'}`} title={target.error?.message}>{t(target.state)}</span>
          {target.error && <span class="field-problem">{target.error.message}</span>}
        </li>
      ))}
    </ul>
  );
}

function Countdown({ info, seen }: { info: RecordingInfo; seen: number }) {
  const [error, setError] = useState<Error | null>(null);
  const elapsed = useElapsed(info, seen);
  const left = Math.max(0, info.duration - elapsed);
  const queued = info.state === 'queued';
  const cancel = (): void => { api.cancel(info.id).then(follow, (e: unknown) => setError(asError(e))); };
  return (
    <section class="page countdown">
      <h1>{queued ? t('queued') : t('recording')}</h1>
      <p class="whose"><span class="command">{titleOf(info)}</span></p>
      <div class="ring-box" role="timer" aria-label={t('secondsLeft', { n: Math.ceil(left) })}>
        <Ring share={info.duration ? elapsed / info.duration : 0} />
        <span class="ring-text">{queued ? '…' : left > 0 ? Math.ceil(left) : '…'}</span>
      </div>
      <p class="facts">{left > 0 || queued ? t('samplesSoFar', { n: whole(info.samples) }) : t('finishing')}</p>
      <p class="buttons"><button type="button" onClick={cancel}>{t('cancel')}</button></p>
      {error && <p class="field-problem" role="alert">{error.message}</p>}
      {info.targets.length > 1 && <TargetList targets={info.targets} />}
    </section>
  );
}

export function again(info: RecordingInfo, change: { idle?: boolean } = {}): Promise<void> {
  return startRecording({
    targets: info.targets.map(({ node, pid }) => ({ node, pid })), duration: info.duration, rate: info.rate, mode: info.mode,
    idle: change.idle ?? info.idle, native: info.native, subprocesses: info.subprocesses, merge: true,
  });
}

function Notes({ info }: { info: RecordingInfo }) {
  const failed = info.targets.filter((target) => target.error);
  if (!info.warnings.length && !failed.length) return null;
  return (
    <div class="notice" role="note">
      {info.warnings.map((warning, i) => <p key={i}>{warning}</p>)}
      {failed.slice(0, 10).map((f) => <p key={`${f.node}/${f.pid}`}>{f.node_name} {f.pid}: {f.error!.message}</p>)}
    </div>
  );
}

function Result({ info, server, route, dark }: { info: RecordingInfo; server: Info | null; route: Route; dark: boolean }) {
  const { value, error, again: retry } = useAsked(info.id, async (signal) => readTree(await api.tree(info.id, signal)));
  const [trouble, setTrouble] = useState<Error | null>(null);
  const repeat = (idle: boolean): void => { again(info, { idle }).catch((e: unknown) => setTrouble(asError(e))); };
  return (
    <section class="page wide">
      <div class="head">
        <h1>{titleOf(info)}</h1>
        <p class="facts">
          {t('samplesAt', { samples: whole(info.samples), seconds: +info.elapsed.toFixed(1), rate: info.rate })} · {when(info.created)}
          {info.targets.length === 1 && ` · ${info.targets[0]!.node_name}`}
          <button type="button" class="link" onClick={() => repeat(info.idle)}>{t('recordAgain')}</button>
        </p>
      </div>
      {trouble && <p class="field-problem" role="alert">{trouble.message}</p>}
      <Notes info={info} />
      {error && <Problem error={error} retry={retry} />}
      {!error && !value && <Loading />}
      {value && value.stacks.length === 0 && (
        <Nothing title={t('emptyProfile')} hint={info.idle ? undefined : t('emptyProfileHint')}>
          {!info.idle && <button type="button" class="primary" onClick={() => repeat(true)}>{t('recordIdle')}</button>}
        </Nothing>
      )}
      {value && value.stacks.length > 0 && <ProfileView profile={value} info={info} server={server} route={route} dark={dark} />}
    </section>
  );
}

/* A file that was asked for in the dialog comes by itself, once. */
function useDownload(info: RecordingInfo | null, format: string | null): void {
  useEffect(() => {
    if (info?.state !== 'done' || !format) return;
    setOption('download', null);
    const link = document.createElement('a');
    link.href = api.resultAddress(info.id, format, { download: 1 });
    link.download = '';
    link.click();
  }, [info?.state, format]);
}

export function Recording({ route, server, dark }: { route: Route; server: Info | null; dark: boolean }) {
  const [id = ''] = route.parts;
  const job = useJob(id);
  const asked = useAsked(id, () => api.recording(id));
  useEffect(() => {
    if (asked.value && !isOver(asked.value)) follow(asked.value);
  }, [asked.value]);
  /* Both say the same; the one that is over is the later one. */
  const info = job && (isOver(job.info) || !asked.value || !isOver(asked.value)) ? job.info : asked.value;
  useDownload(info, route.options.get('download'));
  if (!info) return asked.error ? <Problem error={asked.error} retry={asked.again} /> : <Loading />;
  if (!isOver(info)) return <Countdown info={info} seen={job?.seen ?? performance.now()} />;
  if (info.state === 'failed') return <Problem error={new Error(info.error?.message ?? t('failed'))} />;
  if (info.state === 'cancelled' && !info.size) {
    return <section class="page"><h1>{t('cancelled')}</h1><Nothing title={t('nothingKept')} /></section>;
  }
  return <Result info={info} server={server} route={route} dark={dark} />;
}
