/* A button that stays pressed. */
export function Toggle({ on, text, hint, onChange }: { on: boolean; text: string; hint?: string; onChange: (on: boolean) => void }) {
  return (
    <button type="button" class="toggle" aria-pressed={on} title={hint} onClick={() => onChange(!on)}>{text}</button>
  );
}
