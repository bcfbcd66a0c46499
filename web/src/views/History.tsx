/* Recordings kept by the server: search, open, compare, delete. */
import { useEffect, useState } from 'preact/hooks';

import { api, type Info, type RecordingInfo } from '../api.ts';
import { asError, useKey } from '../hooks.ts';
import { t } from '../i18n.ts';
import { follow, forget, isOver, useRunning } from '../jobs.ts';
import { Dialog } from '../parts/Dialog.tsx';
import { Loading, Nothing, Problem } from '../parts/Problem.tsx';
import { go, to } from '../router.ts';
import { bytes, when, whole } from '../text.ts';
import { titleOf } from './Recording.tsx';

interface Page {
  recordings: RecordingInfo[];
  next: string | null;
}

/* The list for what is typed, a moment after the typing stops; and further pages of it. */
function useHistory(search: string, turn: number) {
  const [page, setPage] = useState<Page | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => {
      api.recordings(search).then(
        (answer) => { if (current) { setPage(answer); setError(null); } },
        (caught: unknown) => { if (current) setError(asError(caught)); });
    }, page ? 200 : 0);
    return () => { current = false; clearTimeout(timer); };
  }, [search, turn]);
  const more = async (): Promise<void> => {
    if (!page?.next) return;
    const older = await api.recordings(search, page.next);
    setPage({ recordings: [...page.recordings, ...older.recordings], next: older.next });
  };
  const drop = (id: string): void => {
    if (page) setPage({ ...page, recordings: page.recordings.filter((r) => r.id !== id) });
  };
  const put = (info: RecordingInfo): void => {
    if (page) setPage({ ...page, recordings: page.recordings.map((r) => (r.id === info.id ? info : r)) });
  };
  return { page, error, more, drop, put };
}

function howOf(info: RecordingInfo): string {
  const flags = [info.mode !== 'wall' && info.mode, info.idle && 'idle', info.native && 'native', info.subprocesses && 'subprocesses'];
  return [`${+info.elapsed.toFixed(1)} s`, `${info.rate}/s`, t('samples', { n: whole(info.samples) }), ...flags.filter(Boolean)].join(' · ');
}

interface RowProps {
  info: RecordingInfo;
  server: Info | null;
  selected: boolean;
  onSelect: () => void;
  onRename: () => void;
  onRemove: () => void;
  onPin: () => void;
}

function DownloadMenu({ info, server }: { info: RecordingInfo; server: Info | null }) {
  return (
    <select
      class="menu"
      aria-label={`${t('download')}: ${titleOf(info)}`}
      value=""
      onChange={(event) => {
        const format = event.currentTarget.value;
        event.currentTarget.value = '';
        if (format) location.href = api.resultAddress(info.id, format, { download: 1 });
      }}
    >
      <option value="">{t('download')}</option>
      {server?.formats.map((f) => <option key={f.name} value={f.name}>{f.name}</option>)}
    </select>
  );
}

function HistoryRow({ info, server, selected, onSelect, onRename, onRemove, onPin }: RowProps) {
  const title = titleOf(info);
  const usable = info.size > 0;
  return (
    <tr class={selected ? 'selected' : ''} data-id={info.id}>
      <td><input type="checkbox" checked={selected} disabled={!usable} aria-label={t('selectRecording', { name: title })} onChange={onSelect} /></td>
      <td class="what">
        <a href={to('recording', info.id)}>{title}</a>
        {info.state !== 'done' && <span class={`chip ${info.state === 'failed' ? 'down' : 'slow'}`} title={info.error?.message}>{t(info.state)}</span>}
        <small>{info.targets.slice(0, 3).map((x) => `${x.node_name} · ${x.pid}`).join(', ')}{info.targets.length > 3 ? ' …' : ''}</small>
      </td>
      <td class="how">{howOf(info)}</td>
      <td class="when">{when(info.created)}</td>
      <td class="number">{usable ? bytes(info.size) : ''}</td>
      <td class="acts">
        {usable && <DownloadMenu info={info} server={server} />}
        <button type="button" class="action" aria-pressed={info.pinned} onClick={onPin}>{info.pinned ? t('unpin') : t('pin')}</button>
        <button type="button" class="action" onClick={onRename}>{t('rename')}</button>
        <button type="button" class="action" onClick={onRemove}>{t('remove')}</button>
      </td>
    </tr>
  );
}

function RenameDialog({ info, onDone, onClose }: { info: RecordingInfo; onDone: (info: RecordingInfo) => void; onClose: () => void }) {
  const [name, setName] = useState(info.name);
  const [error, setError] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    api.rename(info.id, name).then((changed) => { onDone(changed); onClose(); }, (e: unknown) => setError(asError(e).message));
  };
  return (
    <Dialog title={t('rename')} onClose={onClose}>
      <form onSubmit={submit}>
        <div class="field">
          <label htmlFor="new-name">{t('name')}</label>
          <input id="new-name" value={name} maxLength={200} onInput={(event) => setName(event.currentTarget.value)} />
        </div>
        {error && <p class="field-problem" role="alert">{error}</p>}
        <p class="buttons"><button type="button" onClick={onClose}>{t('close')}</button><button type="submit" class="primary">{t('save')}</button></p>
      </form>
    </Dialog>
  );
}

function RemoveDialog({ info, onDone, onClose }: { info: RecordingInfo; onDone: () => void; onClose: () => void }) {
  const [error, setError] = useState('');
  const remove = (): void => {
    api.remove(info.id).then(() => { onDone(); onClose(); }, (e: unknown) => setError(asError(e).message));
  };
  return (
    <Dialog title={t('removeSure', { name: titleOf(info) })} onClose={onClose}>
      {error && <p class="field-problem" role="alert">{error}</p>}
      <p class="buttons"><button type="button" onClick={onClose}>{t('close')}</button><button type="button" class="danger" onClick={remove}>{t('remove')}</button></p>
    </Dialog>
  );
}

export function History({ server }: { server: Info | null }) {
  const [search, setSearch] = useState('');
  const running = useRunning();
  const { page, error, more, drop, put } = useHistory(search, running.length);
  const [chosen, setChosen] = useState<string[]>([]);
  const [asked, setAsked] = useState<{ what: 'rename' | 'remove'; info: RecordingInfo } | null>(null);
  useEffect(() => { for (const info of page?.recordings ?? []) if (!isOver(info)) follow(info); }, [page]);
  useKey('/', () => document.querySelector<HTMLInputElement>('.history input[type=search]')?.focus());
  if (error) return <Problem error={error} />;
  if (!page) return <Loading />;
  /* The two chosen last, the older one first. */
  const select = (id: string): void => setChosen((ids) => (ids.includes(id) ? ids.filter((x) => x !== id) : [...ids, id].slice(-2)));
  const place = (id: string): number => page.recordings.findIndex((r) => r.id === id);
  const pair = [...chosen].sort((a, b) => place(b) - place(a));
  return (
    <section class="page wide history">
      <div class="head">
        <h1>{t('history')}</h1>
        <div class="controls">
          <input type="search" placeholder={t('searchHistory')} aria-label={t('searchHistory')} value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          <button type="button" class="primary" disabled={pair.length !== 2} title={t('compareHint')} onClick={() => go(to('diff', ...pair))}>{t('compareTwo')}</button>
        </div>
      </div>
      {page.recordings.length === 0 ? <Nothing title={t('historyEmpty')} hint={t('historyEmptyHint')} /> : (
        <table class="recordings" aria-label={t('historyTable')}>
          <thead><tr><th><span class="sr">{t('compare')}</span></th><th>{t('what')}</th><th>{t('how')}</th><th>{t('recorded')}</th><th class="number">{t('size')}</th><th>{t('actions')}</th></tr></thead>
          <tbody>
            {page.recordings.map((info) => (
              <HistoryRow
                key={info.id}
                info={running.find((r) => r.id === info.id) ?? info}
                server={server}
                selected={chosen.includes(info.id)}
                onSelect={() => select(info.id)}
                onRename={() => setAsked({ what: 'rename', info })}
                onRemove={() => setAsked({ what: 'remove', info })}
                onPin={() => { api.pin(info.id, !info.pinned).then(put, () => undefined); }}
              />
            ))}
          </tbody>
        </table>
      )}
      {page.next && <p class="buttons"><button type="button" onClick={() => void more()}>{t('more')}</button></p>}
      {asked?.what === 'rename' && <RenameDialog info={asked.info} onDone={put} onClose={() => setAsked(null)} />}
      {asked?.what === 'remove' && (
        <RemoveDialog
          info={asked.info}
          onDone={() => {
            drop(asked.info.id);
            if (isOver(asked.info)) forget(asked.info.id);
            setChosen((ids) => ids.filter((id) => id !== asked.info.id));
          }}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  );
}
