/* Tabs as the accessibility guide has them: arrow keys move between them. */
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

interface Props {
  label: string;
  tabs: { id: string; text: string }[];
  chosen: string;
  onChoose: (id: string) => void;
  children: ComponentChildren;
}

export function Tabs({ label, tabs, chosen, onChoose, children }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const pressed = (event: KeyboardEvent): void => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!by) return;
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + by + tabs.length) % tabs.length]!;
    onChoose(next.id);
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
    event.preventDefault();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={pressed}>
        {tabs.map(({ id, text }) => (
          <button key={id} id={`tab-${id}`} type="button" role="tab" aria-selected={id === chosen} aria-controls="tab-panel" tabIndex={id === chosen ? 0 : -1} onClick={() => onChoose(id)}>
            {text}
          </button>
        ))}
      </div>
      <div class="tab-panel" id="tab-panel" role="tabpanel" aria-labelledby={`tab-${chosen}`}>{children}</div>
    </>
  );
}
