/* How to record: asked before "CPU Flame Graph". Remembers the last answer in this browser. */
import { useState } from 'preact/hooks';

import { api, type Info, type Mode, type RecordingRequest } from '../api.ts';
import { asError } from '../hooks.ts';
import { t } from '../i18n.ts';
import { follow, mayStream } from '../jobs.ts';
import { Dialog } from '../parts/Dialog.tsx';
import { go, to } from '../router.ts';
import { keepChoice, keptChoice } from '../settings.ts';
import { shortCommand } from '../text.ts';

export interface RecordTarget {
  node: string;
  pid: number;
  title: string;
}

interface Choices {
  duration: number;
  rate: number;
  mode: Mode;
  idle: boolean;
  native: boolean;
  subprocesses: boolean;
  format: string; /* '' is the page itself */
  apart: boolean;
}

function firstChoices(info: Info): Choices {
  const { defaults } = info;
  const plain: Choices = {
    duration: defaults.duration, rate: defaults.rate, mode: 'wall', idle: defaults.idle, native: defaults.native && info.native,
    subprocesses: defaults.subprocesses, format: '', apart: false,
  };
  try {
    return { ...plain, ...(JSON.parse(keptChoice('recording') ?? '{}') as Partial<Choices>) };
  } catch {
    return plain;
  }
}

const inRange = (n: number, from: number, until: number): boolean => Number.isFinite(n) && n >= from && n <= until;

/* Starts it and goes to its page, or to the history if there are several. */
export async function startRecording(request: Omit<RecordingRequest, 'attached'>, format = ''): Promise<void> {
  const { recordings } = await api.record({ ...request, attached: request.merge && mayStream() });
  for (const recording of recordings) follow(recording);
  if (recordings.length === 1) go(to('recording', recordings[0]!.id) + (format ? `?download=${format}` : ''));
  else go(to('history'));
}

interface FieldProps {
  label: string;
  unit: string;
  value: number;
  max: number;
  min: number;
  problem: string;
  onChange: (n: number) => void;
}

function NumberField({ label, unit, value, min, max, problem, onChange }: FieldProps) {
  const id = `field-${label}`;
  return (
    <div class="field">
      <label htmlFor={id}>{label}</label>
      <span class="with-unit">
        <input
          id={id}
          type="number"
          min={min}
          max={max}
          step="any"
          required
          value={Number.isFinite(value) ? value : ''}
          aria-invalid={problem !== ''}
          aria-describedby={problem ? `${id}-problem` : undefined}
          onInput={(event) => onChange(event.currentTarget.valueAsNumber)}
        />
        {unit}
      </span>
      {problem && <p class="field-problem" id={`${id}-problem`} role="alert">{problem}</p>}
    </div>
  );
}

function Check({ label, hint, on, onChange, disabled }: { label: string; hint: string; on: boolean; onChange: (on: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" checked={on} disabled={disabled} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}{hint && <small>{hint}</small>}</span>
    </label>
  );
}

export function RecordDialog({ info, targets, onClose }: { info: Info; targets: RecordTarget[]; onClose: () => void }) {
  const [choices, setChoices] = useState(() => firstChoices(info));
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<Choices>): void => setChoices((c) => ({ ...c, ...change }));
  const { max_duration: longest, max_rate: fastest } = info.limits;
  const badDuration = inRange(choices.duration, 0.1, longest) ? '' : t('badDuration', { max: longest });
  const badRate = inRange(choices.rate, 1, fastest) ? '' : t('badRate', { max: fastest });
  const many = targets.length > 1;
  const tooMany = targets.length > info.limits.max_targets;

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (badDuration || badRate || tooMany || busy) return;
    keepChoice('recording', JSON.stringify({ ...choices, format: '', apart: false }));
    setBusy(true);
    try {
      const { duration, rate, mode, idle, native, subprocesses, apart, format } = choices;
      await startRecording({
        targets: targets.map(({ node, pid }) => ({ node, pid })), duration, rate, mode, idle, native, subprocesses,
        merge: !apart,
      }, format);
      onClose();
    } catch (caught) {
      setError(asError(caught));
      setBusy(false);
    }
  };

  return (
    <Dialog title={many ? t('dialogMany', { n: targets.length }) : t('dialogOne', { pid: targets[0]!.pid })} onClose={onClose}>
      <p class="dialog-what">{targets.slice(0, 3).map((x) => shortCommand(x.title)).join(' · ')}{targets.length > 3 ? ' …' : ''}</p>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <div class="fields">
          <NumberField label={t('duration')} unit={t('seconds')} value={choices.duration} min={0.1} max={longest} problem={badDuration} onChange={(duration) => set({ duration })} />
          <NumberField label={t('rate')} unit={t('perSecond')} value={choices.rate} min={1} max={fastest} problem={badRate} onChange={(rate) => set({ rate })} />
          <div class="field">
            <label htmlFor="field-mode">{t('mode')}</label>
            <select id="field-mode" value={choices.mode} onChange={(event) => set({ mode: event.currentTarget.value as Mode })}>
              <option value="wall">{t('modeWall')}</option>
              <option value="cpu">{t('modeCpu')}</option>
              <option value="gil">{t('modeGil')}</option>
            </select>
          </div>
          <div class="field">
            <label htmlFor="field-format">{t('format')}</label>
            <select id="field-format" value={choices.format} onChange={(event) => set({ format: event.currentTarget.value })}>
              <option value="">{t('inPage')}</option>
              {info.formats.map((f) => <option key={f.name} value={f.name}>{t('asFile', { what: f.name })}</option>)}
            </select>
          </div>
        </div>
        <div class="checks">
          <Check label={t('idle')} hint={t('idleHint')} on={choices.idle} onChange={(idle) => set({ idle })} />
          <Check label={t('subprocesses')} hint={t('subprocessesHint')} on={choices.subprocesses} onChange={(subprocesses) => set({ subprocesses })} />
          <Check label={t('native')} hint={t('nativeHint')} on={choices.native} disabled={!info.native} onChange={(native) => set({ native })} />
          {many && <Check label={t('apart')} hint="" on={choices.apart} onChange={(apart) => set({ apart })} />}
        </div>
        {tooMany && <p class="field-problem" role="alert">{t('tooMany', { max: info.limits.max_targets })}</p>}
        {error && <p class="field-problem" role="alert">{error.message}</p>}
        <p class="buttons">
          <button type="button" onClick={onClose}>{t('close')}</button>
          <button type="submit" class="primary" disabled={busy || tooMany || badDuration !== '' || badRate !== ''}>{t('start')}</button>
        </p>
      </form>
    </Dialog>
  );
}
