/* What went wrong, in the server's own words, with its advice and a way on. */
import { ApiError } from '../api.ts';
import { t } from '../i18n.ts';
import { to } from '../router.ts';

export function Problem({ error, retry }: { error: Error; retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <h2>{t('error')}</h2>
      <p>{error.message}</p>
      {error instanceof ApiError && error.hint && <p class="hint">{error.hint}</p>}
      <p class="buttons">
        {retry && <button type="button" onClick={retry}>{t('retry')}</button>}
        <a class="button" href={to('cluster')}>{t('back')}</a>
      </p>
    </div>
  );
}

export function Loading() {
  return <p class="loading" role="status">{t('loading')}</p>;
}

export function Nothing({ title, hint, children }: { title: string; hint?: string; children?: preact.ComponentChildren }) {
  return (
    <div class="nothing">
      <p>{title}</p>
      {hint && <p class="hint">{hint}</p>}
      {children}
    </div>
  );
}
