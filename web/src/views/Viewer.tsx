/* speedscope in a frame of its own, from this server, with the recording handed to it by address. */
import { api } from '../api.ts';
import { t } from '../i18n.ts';

export function Viewer({ id, view, title }: { id: string; view: 'time-ordered' | 'sandwich' | 'left-heavy'; title: string }) {
  const profile = new URL(api.resultAddress(id, 'speedscope'), document.baseURI).href;
  const address = `speedscope/index.html#profileURL=${encodeURIComponent(profile)}&view=${view}`;
  return <iframe key={view} class="viewer" src={address} title={t('viewerTitle', { what: title })} />;
}
