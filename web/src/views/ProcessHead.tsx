/* Which process a view is about. */
import { api } from '../api.ts';
import { useAsked } from '../hooks.ts';
import { shortCommand } from '../text.ts';

export function ProcessHead({ node, pid, title }: { node: string; pid: number; title: string }) {
  const { value } = useAsked(`${node}/${pid}`, () => api.process(node, pid));
  return (
    <div class="head">
      <h1>{title}</h1>
      <p class="whose">
        <span class="pid">{pid}</span>
        <span class="command" title={value?.command}>{value ? shortCommand(value.title || value.command) : ''}</span>
        {value && <span class="chip plain">Python {value.python}</span>}
        {value && <span class="chip plain">{value.node_name}</span>}
      </p>
    </div>
  );
}
