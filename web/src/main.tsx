import { render } from 'preact';

import { App } from './App.tsx';
import { applyTheme, firstTheme } from './settings.ts';
import './style/base.css';
import './style/table.css';
import './style/views.css';
import './style/flame.css';

applyTheme(firstTheme());
render(<App />, document.getElementById('page')!);
