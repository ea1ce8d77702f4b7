import { formatNumber } from '../../../ui/format.ts';
import type { Turn } from './answer.ts';
import css from './chat.module.css';

/** How much of the context window the conversation uses. */
export function ContextUsage({ turns, length }: { turns: readonly Turn[]; length: number | undefined }) {
  const last = turns.findLast((turn) => turn.role === 'assistant' && turn.usage !== undefined);
  if (last?.role !== 'assistant' || !last.usage || length === undefined) return null;
  const used = last.usage.total_tokens;
  return (
    <p className={css['contextUse']}>
      <label>
        Context: {formatNumber(used)} of {formatNumber(length)} tokens used.{' '}
        <meter value={used} max={length} high={length * 0.8} optimum={0} />
      </label>
    </p>
  );
}
