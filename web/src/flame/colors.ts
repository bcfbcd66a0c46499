/* Colours of boxes. A package has one hue wherever it appears; the standard library and native code step back, so that
 * the eye goes to the program's own code. A comparison has two hues and white between them. */
import type { Label } from '../model/tree.ts';

export interface Paint {
  fill: string;
  text: string;
}

/* Hue and how much of it: greens look louder than they are. */
const TONES: [number, number][] = [[32, 0.075], [55, 0.08], [82, 0.085], [112, 0.06], [150, 0.045], [195, 0.042], [232, 0.055], [268, 0.055], [305, 0.052],
  [350, 0.06]];

function hashOf(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

/* "torch/nn/modules/linear.py" -> torch; "/app/src/train.py" -> train.py's folder. */
export function packageOf(file: string): string {
  const parts = file.split('/').filter(Boolean);
  const site = Math.max(parts.lastIndexOf('site-packages'), parts.lastIndexOf('dist-packages'));
  if (site >= 0 && parts[site + 1]) return parts[site + 1]!;
  if (file.startsWith('/')) return parts.slice(0, -1).join('/');
  return parts.length > 1 ? parts[0]! : file;
}

/* Modules every program has at the bottom of its stacks, and the machinery between its own frames. */
const STANDARD = new Set(['threading.py', 'asyncio', 'concurrent', 'runpy.py', 'selectors.py', 'queue.py', 'socket.py', 'ssl.py',
  'subprocess.py', 'multiprocessing', 'importlib', 'contextlib.py', 'functools.py', 'json', 'logging', 'http', 'urllib', 're',
  'encodings', 'email', 'unittest', 'collections', 'abc.py', 'random.py', 'copy.py', 'pickle.py', 'socketserver.py']);
export const isStandard = (file: string): boolean =>
  file.startsWith('<frozen') || /\/lib\/python3[^/]*\/(?!site-packages|dist-packages)/.test(file) || STANDARD.has(packageOf(file));

export function paintOf(label: Label, dark: boolean): Paint {
  const text = dark ? '#eceff1' : '#22262b';
  const tone = (hue: number, chroma: number, up = 0): Paint => ({
    fill: dark ? `oklch(${0.42 + up} ${chroma * 0.85} ${hue})` : `oklch(${0.87 + up} ${chroma} ${hue})`, text,
  });
  if (label.kind === 'root') return tone(230, 0.008, dark ? -0.08 : 0.05);
  if (!label.frame) return tone(230, 0.03, dark ? -0.05 : 0.03);
  if (label.kind === 'native') return tone(200, 0.035);
  if (isStandard(label.frame.file)) return tone(70, 0.02, 0.02);
  const hash = hashOf(packageOf(label.frame.file) || label.frame.file);
  const shade = ((hashOf(label.name) % 7) - 3) * 0.008;
  const [hue, chroma] = TONES[hash % TONES.length]!;
  return tone(hue, chroma, shade);
}

/* share: how much more (or less) of the whole than before, -1 to 1. */
export function paintOfChange(share: number, dark: boolean): Paint {
  const strength = Math.min(1, Math.sqrt(Math.abs(share)) * 2.2);
  const hue = share > 0 ? 30 : 245;
  const light = dark ? 0.34 + strength * 0.14 : 0.955 - strength * 0.17;
  const chroma = Math.abs(share) < 0.0005 ? 0 : 0.02 + strength * 0.09;
  return { fill: `oklch(${light.toFixed(3)} ${chroma.toFixed(3)} ${hue})`, text: dark ? '#eceff1' : '#22262b' };
}

export const highlight = (dark: boolean): Paint =>
  (dark ? { fill: 'oklch(0.72 0.16 75)', text: '#1b1508' } : { fill: 'oklch(0.80 0.16 75)', text: '#1b1508' });
