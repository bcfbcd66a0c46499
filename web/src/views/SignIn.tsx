/* Asked for when the server wants a token. It becomes a cookie that scripts cannot read. */
import { useState } from 'preact/hooks';

import { api } from '../api.ts';
import { t } from '../i18n.ts';

export function SignIn({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState('');
  const [wrong, setWrong] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    api.signIn(token.trim()).then(onDone, () => setWrong(true));
  };
  return (
    <section class="page sign-in">
      <h1>{t('tokenTitle')}</h1>
      <p class="hint">{t('tokenHint')}</p>
      <form onSubmit={submit}>
        <div class="field">
          <label htmlFor="token">{t('token')}</label>
          <input id="token" type="password" autoComplete="current-password" value={token} onInput={(event) => { setToken(event.currentTarget.value); setWrong(false); }} />
          {wrong && <p class="field-problem" role="alert">{t('wrongToken')}</p>}
        </div>
        <p class="buttons"><button type="submit" class="primary" disabled={!token.trim()}>{t('signIn')}</button></p>
      </form>
    </section>
  );
}
