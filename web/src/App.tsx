/* The frame of the page: the bar on top, and the view that the address names. */
import { useEffect, useState } from 'preact/hooks';

import { api, onUnauthorized, type Info } from './api.ts';
import { useMedia } from './hooks.ts';
import { setLanguage, t } from './i18n.ts';
import { useRunning } from './jobs.ts';
import { Nothing } from './parts/Problem.tsx';
import { to, useRoute, type Route } from './router.ts';
import { applyTheme, firstLanguage, firstTheme, isDark, keepChoice, type Language, type Theme } from './settings.ts';
import { Cluster } from './views/Cluster.tsx';
import { Diff } from './views/Diff.tsx';
import { History } from './views/History.tsx';
import { Recording } from './views/Recording.tsx';
import { SignIn } from './views/SignIn.tsx';
import { Stack } from './views/Stack.tsx';
import { Top } from './views/Top.tsx';

const nextTheme: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' };
const themeWord = { auto: 'themeAuto', light: 'themeLight', dark: 'themeDark' } as const;

interface TopBarProps {
  view: string;
  language: Language;
  theme: Theme;
  onLanguage: (language: Language) => void;
  onTheme: (theme: Theme) => void;
}

function Running() {
  const running = useRunning();
  if (!running.length) return null;
  const href = running.length === 1 ? to('recording', running[0]!.id) : to('history');
  return <a class="chip busy" href={href}>{t('running', { n: running.length })}</a>;
}

function TopBar({ view, language, theme, onLanguage, onTheme }: TopBarProps) {
  const link = (name: string, text: string, also: string[] = []) => (
    <a href={to(name)} aria-current={view === name || also.includes(view) ? 'page' : undefined}>{text}</a>
  );
  return (
    <header class="bar-top">
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById('content')?.focus(); }}>{t('skip')}</a>
      <a class="brand" href={to('cluster')} title={t('tagline')}>
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <circle cx="16" cy="13" r="9" /><path d="M8 26h16M11 30h10" /><path class="spark" d="M16 8.5a4.5 4.5 0 0 1 4.5 4.5" />
        </svg>
        scry
      </a>
      <nav aria-label={t('menu')}>
        {link('cluster', t('cluster'), ['stack', 'top'])}
        {link('history', t('history'), ['recording', 'diff'])}
      </nav>
      <Running />
      <span class="space" />
      <button type="button" class="quiet" lang={language === 'en' ? 'zh' : 'en'} title={t('languageName')} onClick={() => onLanguage(language === 'en' ? 'zh' : 'en')}>{t('language')}</button>
      <button type="button" class="quiet theme" aria-label={t(themeWord[theme])} title={t(themeWord[theme])} onClick={() => onTheme(nextTheme[theme])}>
        <span aria-hidden="true">{theme === 'auto' ? '◐' : theme === 'light' ? '☀' : '☾'}</span>
      </button>
    </header>
  );
}

function View({ route, info, dark }: { route: Route; info: Info | null; dark: boolean }) {
  switch (route.view) {
    case 'cluster': return <Cluster info={info} />;
    case 'stack': return <Stack route={route} />;
    case 'top': return <Top key={route.parts.join()} route={route} />;
    case 'recording': return <Recording key={route.parts[0]} route={route} server={info} dark={dark} />;
    case 'history': return <History server={info} />;
    case 'diff': return <Diff route={route} dark={dark} />;
    default: return <Nothing title={t('unknownView')}><a class="button" href={to('cluster')}>{t('back')}</a></Nothing>;
  }
}

const titleWord = { cluster: 'cluster', stack: 'stackTrace', top: 'liveTop', recording: 'flameGraph', history: 'history', diff: 'diffOf' } as const;

export function App() {
  const route = useRoute();
  const [language, chooseLanguage] = useState(firstLanguage);
  const [theme, chooseTheme] = useState(firstTheme);
  const [info, setInfo] = useState<Info | null>(null);
  const [locked, setLocked] = useState(false);
  const [turn, setTurn] = useState(0);
  const systemDark = useMedia('(prefers-color-scheme: dark)');
  setLanguage(language);
  const dark = theme === 'auto' ? systemDark : isDark(theme);

  useEffect(() => {
    onUnauthorized(() => setLocked(true));
    api.info().then(setInfo, () => undefined); /* a view that needs the server says what is wrong */
  }, [turn]);
  useEffect(() => applyTheme(theme), [theme]);
  useEffect(() => {
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    const word = titleWord[route.view as keyof typeof titleWord];
    document.title = word ? `${t(word)} · scry` : 'scry';
  }, [language, route.view]);
  /* A new view begins at its top, and a screen reader at its beginning. */
  useEffect(() => document.getElementById('content')?.scrollTo(0, 0), [route.view, route.parts.join('/')]);

  return (
    <>
      <TopBar
        view={route.view}
        language={language}
        theme={theme}
        onLanguage={(to_) => { keepChoice('language', to_); chooseLanguage(to_); }}
        onTheme={(to_) => { keepChoice('theme', to_); chooseTheme(to_); }}
      />
      <main id="content" tabIndex={-1}>
        {locked ? <SignIn onDone={() => { setLocked(false); setTurn(turn + 1); }} /> : <View key={turn} route={route} info={info} dark={dark} />}
      </main>
    </>
  );
}
