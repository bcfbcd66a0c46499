/* A share as a bar with its number. */
export function Bar({ share, text, tone = '' }: { share: number; text: string; tone?: string }) {
  return (
    <span class={`bar ${tone}`}>
      <span class="bar-fill" style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      <span class="bar-text">{text}</span>
    </span>
  );
}
